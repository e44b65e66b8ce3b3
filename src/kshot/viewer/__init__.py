"""The local web app over run folders."""
