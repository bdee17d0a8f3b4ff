from review_fixtures import client, page, review, server, store, strips, strips_result

__all__ = ["client", "page", "review", "server", "store", "strips", "strips_result"]
