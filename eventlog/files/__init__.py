"""Files opened, written and replaced so that a crash leaves the old or the new one."""
