from review_fixtures import browser, client, review, server, store, strips, strips_result

__all__ = ["browser", "client", "review", "server", "store", "strips", "strips_result"]
