/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* rdma/fi_errno.h: written by `cargo xtask headers`; change crates/abi/src or crates/abi/headers instead. */

#ifndef FI_ERRNO_H
#define FI_ERRNO_H

#include <errno.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FI_SUCCESS 0
#define FI_EPERM 1
#define FI_ENOENT 2
#define FI_EINTR 4
#define FI_EIO 5
#define FI_E2BIG 7
#define FI_EBADF 9
#define FI_EAGAIN 11
#define FI_ENOMEM 12
#define FI_EACCES 13
#define FI_EFAULT 14
#define FI_EBUSY 16
#define FI_ENODEV 19
#define FI_EINVAL 22
#define FI_EMFILE 24
#define FI_ENOSPC 28
#define FI_ENOSYS 38
#define FI_EWOULDBLOCK 11
#define FI_ENOMSG 42
#define FI_ENODATA 61
#define FI_EPROTO 71
#define FI_EOVERFLOW 75
#define FI_EMSGSIZE 90
#define FI_ENOPROTOOPT 92
#define FI_EOPNOTSUPP 95
#define FI_EADDRINUSE 98
#define FI_EADDRNOTAVAIL 99
#define FI_ENETDOWN 100
#define FI_ENETUNREACH 101
#define FI_ECONNABORTED 103
#define FI_ECONNRESET 104
#define FI_ENOBUFS 105
#define FI_EISCONN 106
#define FI_ENOTCONN 107
#define FI_ESHUTDOWN 108
#define FI_ETIMEDOUT 110
#define FI_ECONNREFUSED 111
#define FI_EHOSTDOWN 112
#define FI_EHOSTUNREACH 113
#define FI_EALREADY 114
#define FI_EINPROGRESS 115
#define FI_EREMOTEIO 121
#define FI_ECANCELED 125
#define FI_EKEYREJECTED 129
#define FI_EOTHER 256
#define FI_ETOOSMALL 257
#define FI_EOPBADSTATE 258
#define FI_EAVAIL 259
#define FI_EBADFLAGS 260
#define FI_ENOEQ 261
#define FI_EDOMAIN 262
#define FI_ENOCQ 263
#define FI_ECRC 264
#define FI_ETRUNC 265
#define FI_ENOKEY 266
#define FI_ENOAV 267
#define FI_EOVERRUN 268
#define FI_ENORX 269
#define FI_ENOMR 270
#define FI_EFIREWALLADDR 271

/* The first number that belongs to libfabric. */
#define FI_ERRNO_OFFSET FI_EOTHER
#define FI_ERRNO_MAX (FI_EFIREWALLADDR + 1)

/* Spells an error number, positive or negative. Source: fi_errno(3). */
const char *fi_strerror(int errnum);

#ifdef __cplusplus
}
#endif

#endif /* FI_ERRNO_H */
