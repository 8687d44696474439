// What programs in Java ask: the metadata that tools browse by, rows of every type, cursors, and what is refused.
// Prints "what: answer" a line; the password comes by standard input. Run by test_clients.py.

import java.math.BigDecimal;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.Date;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.sql.Statement;
import java.sql.Timestamp;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;

public class Jdbc {
    static final String ENDLESS = "SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE a.range * b.range = 7";

    static void say(String what, Object answer) {
        System.out.println(what + ": " + answer);
    }

    static List<String> column(ResultSet rows, String name) throws SQLException {
        List<String> found = new ArrayList<>();
        while (rows.next()) found.add(rows.getString(name));
        return found;
    }

    static int count(ResultSet rows) throws SQLException {
        int found = 0;
        while (rows.next()) found++;
        return found;
    }

    static long one(ResultSet rows) throws SQLException {
        rows.next();
        return rows.getLong(1);
    }

    static String state(Connection client, String sql, int seconds) throws SQLException {
        try (Statement statement = client.createStatement()) {
            statement.setQueryTimeout(seconds);
            statement.execute(sql);
            return "done";
        } catch (SQLException error) {
            return error.getSQLState();
        }
    }

    static void browse(DatabaseMetaData known) throws SQLException {
        say("product", known.getDatabaseProductName() + " " + known.getDatabaseProductVersion());
        say("schemas", String.join(" ", column(known.getSchemas(), "TABLE_SCHEM")));
        say("tables", String.join(" ", column(known.getTables(null, null, "%", new String[] {"TABLE"}), "TABLE_NAME")));
        List<String> columns = new ArrayList<>();
        try (ResultSet rows = known.getColumns(null, "public", "people", "%")) {
            while (rows.next())
                columns.add(rows.getString("COLUMN_NAME") + " " + rows.getString("TYPE_NAME") + " " + rows.getInt("DATA_TYPE"));
        }
        say("columns", String.join(", ", columns));
        say("keys", count(known.getPrimaryKeys(null, "public", "people")) + " "
            + count(known.getImportedKeys(null, "public", "people")) + " "
            + count(known.getIndexInfo(null, "public", "people", false, true)) + " "
            + count(known.getBestRowIdentifier(null, "public", "people", 0, true)));
        say("types", count(known.getTypeInfo()) > 10);
        say("keywords", known.getSQLKeywords().length() > 100);
        say("privileges", String.join(" ", column(known.getTablePrivileges(null, null, "people"), "PRIVILEGE")));
    }

    static void ask(Connection client) throws SQLException {
        String rows = "SELECT id, name, amount, day, at, raw, ratio FROM people WHERE id = ? AND name LIKE ?";
        try (PreparedStatement statement = client.prepareStatement(rows)) {
            String found = "";
            for (int times = 0; times < 8; times++) { // from the sixth time on it is prepared, and sent in binary
                statement.setLong(1, 1);
                statement.setString(2, "A%");
                ResultSet row = statement.executeQuery();
                row.next();
                found = row.getLong(1) + " " + row.getString(2) + " " + row.getBigDecimal(3) + " " + row.getDate(4) + " "
                    + row.getTimestamp(5).toInstant() + " " + row.getBytes(6).length + " " + row.getDouble(7);
            }
            say("row", found);
        }
        try (PreparedStatement statement = client.prepareStatement("SELECT * FROM people WHERE id = ?")) {
            say("described", statement.getMetaData().getColumnCount() + " " + statement.getMetaData().getColumnTypeName(3)
                + " " + statement.getParameterMetaData().getParameterCount());
        }
        try (PreparedStatement statement = client.prepareStatement("SELECT count(*) FROM people WHERE id = ANY(?)")) {
            statement.setArray(1, client.createArrayOf("bigint", new Long[] {1L, 2L}));
            say("array", one(statement.executeQuery()));
        }
        String values = "SELECT count(*) FROM people WHERE day = ? OR at = ? OR amount = ? OR ratio = ?";
        try (PreparedStatement statement = client.prepareStatement(values)) {
            statement.setDate(1, Date.valueOf("2024-02-29"));
            statement.setTimestamp(2, Timestamp.valueOf("2024-02-29 12:00:00"));
            statement.setBigDecimal(3, new BigDecimal("1.5"));
            statement.setDouble(4, 0.1);
            say("values", one(statement.executeQuery()));
        }
    }

    static void transact(Connection client) throws SQLException {
        client.setAutoCommit(false);
        try (Statement statement = client.createStatement()) {
            statement.setFetchSize(100); // portals, a hundred rows at a time
            ResultSet rows = statement.executeQuery("SELECT range AS n FROM range(1000)");
            long total = 0;
            while (rows.next()) total += rows.getLong(1);
            say("cursor", total);
        }
        Savepoint here = client.setSavepoint("here");
        state(client, "SELECT nothing", 0);
        client.rollback(here);
        say("savepoint", one(client.createStatement().executeQuery("SELECT 1")));
        client.commit();
        client.setReadOnly(true);
        client.setTransactionIsolation(Connection.TRANSACTION_REPEATABLE_READ);
        say("read-only", one(client.createStatement().executeQuery("SELECT count(*) FROM people")));
        client.rollback();
        client.setAutoCommit(true);
        client.setReadOnly(false);
    }

    public static void main(String[] arguments) throws Exception {
        Properties account = new Properties();
        account.put("user", "headwater");
        account.put("password", new String(System.in.readAllBytes(), "UTF-8"));
        try (Connection client = DriverManager.getConnection(arguments[0], account)) {
            browse(client.getMetaData());
            ask(client);
            transact(client);
            say("insert", state(client, "INSERT INTO people VALUES (1)", 0));
            say("timeout", state(client, ENDLESS, 1));
            client.setClientInfo("ApplicationName", "mine");
            say("application", client.getClientInfo("ApplicationName"));
        }
    }
}
