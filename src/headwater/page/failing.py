"""What becomes of an error: a sentence for who asked, the traceback for the log, nothing for the terminal.

Errors that were foreseen say what to do. Of others the browser is told the kind only: what they say may hold anything.
They end here, because a server that sees one writes its traceback to the terminal.
"""

from __future__ import annotations

import logging

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headwater.model.errors import HeadwaterError, UnknownName, UsageError
from headwater.page.answers import answer
from headwater.runtime.project.secrets import without_secrets

log = logging.getLogger(__name__)


def sentences(error: Exception) -> dict[str, str]:
    """What happened and what to do about it."""
    if isinstance(error, HeadwaterError):
        return {"error": without_secrets(error.what), "fix": without_secrets(error.fix)}
    log.error("unexpected", exc_info=error)
    return {"error": f"unexpected {type(error).__name__}", "fix": "the log of 'headwater ui --log FILE' says more"}


def status(error: Exception) -> int:
    if not isinstance(error, HeadwaterError):
        return 500
    return 404 if isinstance(error, UnknownName) else 400 if isinstance(error, UsageError) else 503


class Explained:
    """Answers for the application where it raised."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def noted(message: Message) -> None:
            nonlocal begun
            begun = begun or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, noted)
        except Exception as error:
            said = sentences(error)
            if begun:  # the rest cannot be had
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            else:
                await answer(said, status(error))(scope, receive, send)
