#!/usr/bin/env python3
"""A Telegram bot in front of Turnstile, with nothing but Python's standard library.

    TELEGRAM_TOKEN=... TELEGRAM_CHATS=... WEBHOOK_SECRET=whsec_... python3 examples/telegram-bot/bot.py

README.md beside this file says how to set it up, and has all settings.
"""

import logging
import os
import sys
import threading

from inbox import Inbox
from live import Live
from outbox import Outbox, serve
from store import Store
from telegram import Telegram
from turnstile import Turnstile


def setting(name, default=None):
    value = os.environ.get(name) or default
    if value is None:
        sys.exit(f"set {name}: see README.md beside bot.py")
    return value


def main():
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    telegram = Telegram(setting("TELEGRAM_API", "https://api.telegram.org"), setting("TELEGRAM_TOKEN"))
    turnstile = Turnstile(setting("TURNSTILE_URL", "http://127.0.0.1:8081"), setting("TURNSTILE_TOKEN", ""))
    chats = setting("TELEGRAM_CHATS", "").replace(",", " ").split()
    secret = setting("WEBHOOK_SECRET")
    if not secret.startswith("whsec_"):
        sys.exit("WEBHOOK_SECRET does not begin with whsec_")
    store = Store(setting("BOT_DB", "telegram.db"))
    live = Live(telegram, turnstile, store)
    inbox = Inbox(telegram, turnstile, store, live, setting("TURNSTILE_DESTINATION", "telegram"), None if "*" in chats else chats)
    server = serve(setting("WEBHOOK_ADDR", "127.0.0.1:8090"), secret, Outbox(telegram, turnstile, store))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print("listening on", server.server_port, flush=True)
    inbox.start()
    live.start()
    inbox.poll()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        pass
