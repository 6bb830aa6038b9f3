import pickle

import pytest

from sparklog.errors import InvalidOptionError
from sparklog.storage.objects.client import config_of
from sparklog.storage.settings import (
    STORAGE_SETTINGS,
    STORES,
    StorageOptions,
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
        environ = {"AWS_REGION": "us-west-2", "AWS_ALLOW_HTTP": "true", "HOME": "/root"}

        found = storage_options(KEYS, environ)

        assert found == KEYS | {"AWS_ALLOW_HTTP": "true"}

    def test_takes_no_secret_from_the_environment(self) -> None:
        environ = {setting.name: "s3cret" for setting in STORAGE_SETTINGS if setting.secret}

        for store in STORES:
            assert storage_options({}, environ, store) == {}

    def test_takes_of_the_environment_what_is_for_the_store(self) -> None:
        environ = {"AWS_DEFAULT_REGION": "x", "AZURE_STORAGE_ACCOUNT_NAME": "account1"}

        assert storage_options({}, environ, "AZURE") == {"AZURE_STORAGE_ACCOUNT_NAME": "account1"}

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

    @pytest.mark.parametrize(
        ("name", "allow"),
        (
            ("GOOGLE_BASE_URL", "GOOGLE_ALLOW_HTTP"),
            ("AZURE_STORAGE_ENDPOINT", "AZURE_ALLOW_HTTP"),
        ),
    )
    def test_refuses_http_of_each_store(self, name: str, allow: str) -> None:
        endpoint = {name: "http://127.0.0.1:9000"}

        with pytest.raises(InvalidOptionError, match=f"set {allow}=true"):
            storage_options(endpoint, {})

        assert storage_options(endpoint | {allow: "true"}, {})[name] == endpoint[name]

    def test_lets_the_endpoint_of_azure_have_a_path(self) -> None:
        endpoint = {"AZURE_STORAGE_ENDPOINT": "https://127.0.0.1:10000/account1"}

        assert storage_options(endpoint, {}) == endpoint


class TestTimeouts:
    def test_come_from_options_and_the_environment(self) -> None:
        environ = {"SPARKLOG_STORAGE_TIMEOUT": "500ms", "SPARKLOG_STORAGE_MAX_RETRIES": "3"}
        found = storage_options({"storage.timeout": "2m"}, environ, "AZURE")

        assert (found.seconds("TIMEOUT"), found.count("MAX_RETRIES")) == (120, 3)
        assert (found.seconds("RETRY_TIMEOUT"), StorageOptions().count("MAX_RETRIES")) == (
            None,
            None,
        )

    @pytest.mark.parametrize("text", ("30", "0s", "6m", "1h", "-1s", "1.5s"))
    def test_out_of_bounds_are_refused(self, text: str) -> None:
        with pytest.raises(InvalidOptionError, match="allowed: 1ms to 300s") as caught:
            storage_options({"RETRY_TIMEOUT": text}, {})

        assert caught.value.__dict__ == {"option": "RETRY_TIMEOUT"}

    @pytest.mark.parametrize("text", ("-1", "101", "ten"))
    def test_retries_out_of_bounds_are_refused(self, text: str) -> None:
        with pytest.raises(InvalidOptionError, match="allowed: 0 to 100"):
            storage_options({"MAX_RETRIES": text}, {})


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
        secret = {setting.name for setting in STORAGE_SETTINGS if setting.secret}

        assert secret == {
            "AWS_ACCESS_KEY_ID",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_SESSION_TOKEN",
            "GOOGLE_SERVICE_ACCOUNT_KEY",
            "GOOGLE_BEARER_TOKEN",
            "AZURE_STORAGE_ACCOUNT_KEY",
            "AZURE_STORAGE_SAS_TOKEN",
            "AZURE_STORAGE_TOKEN",
            "AZURE_STORAGE_CLIENT_SECRET",
        }


def test_a_client_gets_its_own_settings_by_its_own_names() -> None:
    options = StorageOptions({"AWS_REGION": "eu-west-1", "AZURE_STORAGE_TOKEN": "t0ken"})

    assert config_of(options, "AWS") == {"aws_region": "eu-west-1"}
    assert config_of(options, "AZURE") == {"azure_storage_token": "t0ken"}
    assert config_of(options, "GOOGLE") == {}
