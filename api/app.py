"""`uvicorn api.app:app`, with the settings from the environment.

`sparklog rest` starts the same application in a server of its own, which cuts off slow clients,
refuses to listen beyond loopback without tokens, and answers waiting fetches when it ends.
"""

from sparklog.rest.app import create_app
from sparklog.rest.settings import Settings
from sparklog.service.settings import settings_of

app = create_app(settings_of(Settings))
