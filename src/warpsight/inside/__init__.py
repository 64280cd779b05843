"""The part that runs inside the user's program: `ws.record`, `ws.annotate`, `ws.step`, `ws.emit`, `ws.memory`, `ws.time`."""
