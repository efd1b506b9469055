//! fi_info, fi_pingpong, fi_strerror and oxi.
