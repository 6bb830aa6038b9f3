"""The REST service from a checkout: `uvicorn api.app:app`, `python -m api`."""
