from tests.storage_fixtures import place, s3, store

__all__ = ["place", "s3", "store"]
