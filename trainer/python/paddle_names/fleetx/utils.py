"""Utilities of FleetX."""

from tandem.errors import UnimplementedError

__all__ = ["Downloader"]


class Downloader:
    """Tandem downloads nothing."""

    def download_from_bos(self, fs_yaml: str, local_path: str) -> str:
        """Refused: put the data into `local_path` first, and use the path."""
        raise UnimplementedError(
            f"download_from_bos: {fs_yaml} cannot be downloaded, because Tandem has no downloader "
            "[TD1109]",
            f"put the data into {local_path} and leave this call out",
        )
