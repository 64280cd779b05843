"""The front ends: command line, rendering, MCP server, Jupyter."""
