"""Where AWS's credentials come from when nobody gives them."""

from pathlib import Path

import pytest

from sparklog.errors import StoragePermissionError
from sparklog.storage.objects.aws_credentials import ContainerCredentials, given, provided

KEYS = {"AWS_ACCESS_KEY_ID": "AKIAID", "AWS_SECRET_ACCESS_KEY": "s3cret"}


@pytest.fixture(autouse=True)
def no_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))


class TestGiven:
    def test_are_all_three_and_never_expire(self) -> None:
        provider = given(KEYS | {"AWS_SESSION_TOKEN": "t0ken"})

        assert provider is not None
        assert provider() == {
            "access_key_id": "AKIAID",
            "secret_access_key": "s3cret",
            "token": "t0ken",
            "expires_at": None,
        }

    def test_are_none_without_keys(self) -> None:
        assert given({}) is None


class TestProvided:
    @pytest.mark.parametrize(
        "environ",
        (
            {},
            KEYS,
            {"AWS_WEB_IDENTITY_TOKEN_FILE": "/token"},
            {"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/v2"},
            {
                "AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://127.0.0.1/",
                "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": "/token",
            },
        ),
        ids=range(5),
    )
    def test_leaves_to_obstore_what_it_knows(self, environ: dict[str, str]) -> None:
        assert provided(environ) is None

    @pytest.mark.parametrize("token", ({}, {"AWS_CONTAINER_AUTHORIZATION_TOKEN": "who I am"}))
    def test_asks_the_containers_endpoint(self, token: dict[str, str]) -> None:
        environ = {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://127.0.0.1/"} | token

        assert isinstance(provided(environ), ContainerCredentials)


class TestContainerCredentials:
    def test_takes_addresses_of_the_web_only(self) -> None:
        with pytest.raises(StoragePermissionError, match=r"allowed: http\[s\]://host/path"):
            ContainerCredentials("file:///etc/passwd", None)()


class TestProfile:
    @pytest.fixture
    def shared(self, tmp_path: Path) -> Path:
        path = tmp_path / "shared"
        path.write_text(
            "[default]\naws_access_key_id = AKIAID\naws_secret_access_key = s3cret%\n"
            "[role]\nrole_arn = arn:aws:iam::1:role/r\n"
            "[work]\naws_access_key_id = W\naws_secret_access_key = w\naws_session_token = t\n"
        )
        return path

    def test_is_the_default_one(self, shared: Path) -> None:
        provider = provided({"AWS_SHARED_CREDENTIALS_FILE": str(shared)})

        assert provider is not None
        assert provider()["secret_access_key"] == "s3cret%"

    def test_is_the_one_that_is_named(self, shared: Path) -> None:
        environ = {"AWS_SHARED_CREDENTIALS_FILE": str(shared), "AWS_PROFILE": "work"}
        provider = provided(environ)

        assert provider is not None
        assert provider()["token"] == "t"

    @pytest.mark.parametrize("name", ("role", "unknown"))
    def test_without_keys_is_none(self, shared: Path, name: str) -> None:
        environ = {"AWS_SHARED_CREDENTIALS_FILE": str(shared), "AWS_PROFILE": name}

        assert provided(environ) is None

    def test_of_a_file_that_is_no_such_file_is_none(self, tmp_path: Path) -> None:
        (tmp_path / "shared").write_text("no section")

        assert provided({"AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "shared")}) is None
