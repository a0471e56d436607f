from tests.storage_fixtures import s3

__all__ = ["s3"]
