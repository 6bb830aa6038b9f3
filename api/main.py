"""The application from the environment: `uvicorn api.main:app`; `python -m api` guards more."""

from api.app import create_app
from api.logs import set_up_logs
from api.settings import Settings

settings = Settings()  # type: ignore[call-arg] # they come from the environment
set_up_logs(settings.log_level)
app = create_app(settings)
