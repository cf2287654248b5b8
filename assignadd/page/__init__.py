"""The interactive page: any run as static files that work from disk, without a server or an outside request."""
