"""The commands that move or show files: `import`, `export`, `backup`, `restore`, `dump-log`."""
