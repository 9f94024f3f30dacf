"""AWS logins that boto3 resolves: a profile of the machine, a role to assume.

boto3 is imported only where such a login is used, in an executor too: there it must be installed beside
pyarrow and obstore. Its credentials renew themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from calve.model.errors import AccessDenied, ConfigError
from calve.store.access import Access
from calve.store.vended import expires_soon

_NAMES = ("s3.profile-name", "client.profile-name", "s3.role-arn", "client.role-arn")


def asks_for_chain(access: Access) -> bool:
    """Whether the login is a profile or a role."""
    return access.get(*_NAMES) is not None


def chain(access: Access) -> Callable[[], dict[str, Any]]:
    """A credential provider for obstore."""
    try:
        from botocore.exceptions import BotoCoreError, ClientError

        from calve.store.aws import session
    except ModuleNotFoundError:
        raise ConfigError(
            "a profile or a role to assume needs boto3, which is not installed here",
            hint="pip install 'calve[aws]', on every executor too; or give keys, or let the machine's own "
            "role or the environment be the login.",
        ) from None
    credentials = session(dict(access.settings), service="s3").get_credentials()

    def provide() -> dict[str, Any]:
        if credentials is None:
            raise AccessDenied("the profile has no login", hint="Look at ~/.aws/credentials.")
        try:
            now = credentials.get_frozen_credentials()
        except (BotoCoreError, ClientError) as error:
            raise AccessDenied(
                f"AWS gives no credentials for the profile or role: {type(error).__name__}",
                hint="May this login assume the role, and is the profile right?",
            ) from None
        return {
            "access_key_id": now.access_key,
            "secret_access_key": now.secret_key,
            "token": now.token,
            # boto3 knows when they end: it is asked again soon, and answers from memory until then.
            "expires_at": expires_soon(),
        }

    return provide
