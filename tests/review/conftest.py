from review_fixtures import client, review, server, store, strips, strips_result

__all__ = ["client", "review", "server", "store", "strips", "strips_result"]
