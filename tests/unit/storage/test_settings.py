import pickle

import pytest

from sparklog.errors import InvalidOptionError
from sparklog.storage.settings import (
    STORAGE_SETTINGS,
    StorageOptions,
    arrow_arguments,
    storage_options,
)

KEYS = {"AWS_ACCESS_KEY_ID": "AKIAID", "AWS_SECRET_ACCESS_KEY": "s3cret", "AWS_REGION": "eu-west-1"}
TOKEN = {"AWS_SESSION_TOKEN": "t0ken"}
PLAIN = {"AWS_ENDPOINT_URL": "http://127.0.0.1:9000", "AWS_ALLOW_HTTP": "true"}


class TestStorageOptions:
    def test_takes_names_with_and_without_prefix_in_any_case(self) -> None:
        given = {
            "storage.AWS_ACCESS_KEY_ID": "AKIAID",
            "storage.aws_secret_access_key": "s3cret",
            "Aws_Region": "eu-west-1",
        }

        assert storage_options(given, {}) == KEYS

    def test_takes_from_the_environment_what_is_not_given(self) -> None:
        environ = KEYS | {"AWS_REGION": "us-west-2", "HOME": "/root", "AWS_PROFILE": "work"}

        found = storage_options({"storage.AWS_REGION": "eu-west-1"}, environ)

        assert found == KEYS

    def test_never_mixes_credentials_of_two_sources(self) -> None:
        environ = {"AWS_ACCESS_KEY_ID": "OTHER", "AWS_SECRET_ACCESS_KEY": "other"} | TOKEN

        assert storage_options(KEYS, environ) == KEYS

    @pytest.mark.parametrize("name", ("AWS_REGION", "AWS_DEFAULT_REGION"))
    def test_reads_both_names_of_the_region(self, name: str) -> None:
        assert storage_options({}, {name: "eu-west-1"}) == {"AWS_REGION": "eu-west-1"}

    def test_prefers_the_region_over_its_default(self) -> None:
        environ = {"AWS_REGION": "eu-west-1", "AWS_DEFAULT_REGION": "us-west-2"}

        assert storage_options({}, environ) == {"AWS_REGION": "eu-west-1"}

    def test_takes_an_empty_value_for_none(self) -> None:
        assert storage_options({"AWS_REGION": ""}, {"AWS_REGION": "x", "AWS_ALLOW_HTTP": ""}) == {}

    def test_gives_an_endpoint_of_ones_own_a_region(self) -> None:
        assert storage_options(PLAIN, {}) == PLAIN | {"AWS_REGION": "us-east-1"}
        assert storage_options(PLAIN | {"AWS_REGION": "x"}, {}) == PLAIN | {"AWS_REGION": "x"}

    @pytest.mark.parametrize("name", ("storage.AWS_SECRET", "topic", "storage.", "AWS_PROFILE"))
    def test_refuses_an_unknown_name_without_showing_its_value(self, name: str) -> None:
        with pytest.raises(InvalidOptionError, match=f"{name!r}; allowed: AWS_ENDPOINT") as caught:
            storage_options({name: "s3cret"}, {})

        assert "s3cret" not in str(caught.value)
        assert caught.value.__dict__ == {"option": name}

    @pytest.mark.parametrize("name", ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"))
    def test_refuses_half_a_pair_of_keys(self, name: str) -> None:
        with pytest.raises(InvalidOptionError, match="only one of") as caught:
            storage_options({name: "s3cret"}, {})

        assert "s3cret" not in str(caught.value)

    @pytest.mark.parametrize("name", ("AWS_ALLOW_HTTP", "AWS_VIRTUAL_HOSTED_STYLE_REQUEST"))
    def test_refuses_what_is_neither_true_nor_false(self, name: str) -> None:
        with pytest.raises(InvalidOptionError, match=f"{name} is 'maybe'; allowed: true or false"):
            storage_options({name: "maybe"}, {})

    @pytest.mark.parametrize(
        "endpoint",
        (
            "127.0.0.1:9000",
            "ftp://127.0.0.1",
            "https://",
            "https://user:s3cret@host",
            "https://host/bucket",
            "https://host?s3cret",
        ),
    )
    def test_refuses_an_endpoint_that_is_no_address(self, endpoint: str) -> None:
        with pytest.raises(InvalidOptionError, match="allowed: http://host:port or") as caught:
            storage_options({"AWS_ENDPOINT_URL": endpoint}, {})

        assert "s3cret" not in str(caught.value)

    @pytest.mark.parametrize("allow", ("", "false", "No", "0"))
    def test_refuses_http_unless_it_is_allowed(self, allow: str) -> None:
        with pytest.raises(InvalidOptionError, match="set AWS_ALLOW_HTTP=true"):
            storage_options(PLAIN | {"AWS_ALLOW_HTTP": allow}, {})


class TestSecrets:
    options = StorageOptions(KEYS | TOKEN)

    def test_stay_out_of_sight(self) -> None:
        shown = f"{self.options} {self.options!r} {[self.options]}"

        assert shown.count("***") == 9
        assert not any(secret in shown for secret in ("AKIAID", "s3cret", "t0ken"))

    def test_are_taken_out_of_a_message(self) -> None:
        assert self.options.redact("key AKIAID, s3cret, in eu-west-1") == (
            "key ***, ***, in eu-west-1"
        )

    def test_travel_in_a_pickle(self) -> None:
        copy = pickle.loads(pickle.dumps(self.options))

        assert type(copy) is StorageOptions
        assert copy == KEYS | TOKEN

    def test_are_those_that_the_table_says(self) -> None:
        secret = [setting.name for setting in STORAGE_SETTINGS if setting.secret]

        assert secret == ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"]


class TestArrowArguments:
    def test_leaves_everything_to_the_usual_sources_by_default(self) -> None:
        assert arrow_arguments(StorageOptions()) == {
            "access_key": None,
            "secret_key": None,
            "session_token": None,
            "region": None,
        }

    def test_translates_every_setting(self) -> None:
        options = StorageOptions(
            KEYS
            | TOKEN
            | {
                "AWS_ENDPOINT_URL": "https://minio.example:9000/",
                "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "TRUE",
            }
        )

        assert arrow_arguments(options) == {
            "access_key": "AKIAID",
            "secret_key": "s3cret",
            "session_token": "t0ken",
            "region": "eu-west-1",
            "scheme": "https",
            "endpoint_override": "minio.example:9000",
            "force_virtual_addressing": True,
        }
