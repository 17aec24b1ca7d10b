"""One module per API, named after it, and the one table that lists them."""
