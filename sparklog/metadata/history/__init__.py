"""The history of the metadata log: `files` has past entries and cuts, `read` reads them."""
