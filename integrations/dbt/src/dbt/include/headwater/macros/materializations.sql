{# A model is a view that is maintained from then on, also while dbt is not running. #}
{% macro headwater_maintain() %}
  {{ run_hooks(pre_hooks, inside_transaction=False) }}
  {{ run_hooks(pre_hooks, inside_transaction=True) }}
  {% set target_relation = this.incorporate(type='materialized_view') %}
  {% set response = adapter.maintain_view(this.identifier, sql, model['unique_id'], model['config']) %}
  {% do store_result('main', response=response) %}
  {{ run_hooks(post_hooks, inside_transaction=True) }}
  {{ adapter.commit() }}
  {{ run_hooks(post_hooks, inside_transaction=False) }}
  {{ return({'relations': [target_relation]}) }}
{% endmacro %}

{% materialization materialized_view, adapter='headwater', supported_languages=['sql'] %}
  {{ return(headwater_maintain()) }}
{% endmaterialization %}

{# dbt's own default, of models that say nothing #}
{% materialization view, adapter='headwater', supported_languages=['sql'] %}
  {{ return(headwater_maintain()) }}
{% endmaterialization %}

{% macro headwater_refuse(what) %}
  {% do exceptions.raise_compiler_error(
    what ~ " is not for Headwater: a model is a maintained view (materialized='materialized_view'), always as new as its sources"
  ) %}
{% endmacro %}

{% materialization table, adapter='headwater' %}
  {{ headwater_refuse("materialized='table'") }}
{% endmaterialization %}

{% materialization incremental, adapter='headwater' %}
  {{ headwater_refuse("materialized='incremental'") }}
{% endmaterialization %}

{% materialization snapshot, adapter='headwater' %}
  {{ headwater_refuse("a snapshot") }}
{% endmaterialization %}

{% materialization seed, adapter='headwater' %}
  {{ headwater_refuse("a seed") }}
{% endmaterialization %}

{% macro headwater__get_create_table_as_sql(temporary, relation, sql) %}
  {{ headwater_refuse("store_failures") }}
{% endmacro %}

{% macro headwater__get_create_view_as_sql(relation, sql) %}
  {{ headwater_refuse("store_failures") }}
{% endmacro %}
