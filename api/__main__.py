"""`python -m api`: the service on loopback, port 8082."""

from api.server import main

if __name__ == "__main__":
    main()
