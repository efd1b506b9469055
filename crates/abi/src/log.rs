//! Mirror of `rdma/providers/fi_log.h`: the log of the library.

/// Part of the library that a message of the log comes from.
pub type fi_log_subsys = u32;
pub const FI_LOG_CORE: fi_log_subsys = 0;
pub const FI_LOG_FABRIC: fi_log_subsys = 1;
pub const FI_LOG_DOMAIN: fi_log_subsys = 2;
pub const FI_LOG_EP_CTRL: fi_log_subsys = 3;
pub const FI_LOG_EP_DATA: fi_log_subsys = 4;
pub const FI_LOG_AV: fi_log_subsys = 5;
pub const FI_LOG_CQ: fi_log_subsys = 6;
pub const FI_LOG_EQ: fi_log_subsys = 7;
pub const FI_LOG_MR: fi_log_subsys = 8;
pub const FI_LOG_CNTR: fi_log_subsys = 9;

/// Weight of a message of the log.
pub type fi_log_level = u32;
pub const FI_LOG_WARN: fi_log_level = 0;
pub const FI_LOG_TRACE: fi_log_level = 1;
pub const FI_LOG_INFO: fi_log_level = 2;
pub const FI_LOG_DEBUG: fi_log_level = 3;
