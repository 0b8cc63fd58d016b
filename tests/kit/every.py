"""Every row of the kit beside those that ship."""

from tests.kit import config_rows, daemon_rows, http_rows, rows, security_rows, socket_rows

ROWS = (
    *rows.ROWS,
    *http_rows.ROWS,
    *socket_rows.ROWS,
    *config_rows.ROWS,
    *daemon_rows.ROWS,
    *security_rows.ROWS,
)
