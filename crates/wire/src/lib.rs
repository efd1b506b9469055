//! Codecs of what travels between endpoints, one file a header.
