/*
 * The packets of the protocol of efa as bytes, docs/protocol/efa.md section 6: those that honest peers send, and any others.
 */
#include <stdint.h>
#include <string.h>

enum { PACKET_MAX = 8928, PIECES_MAX = 6, VERSION = 4 };

/* The kinds. Of messages that of those without a tag; with one it is the next. */
enum {
	CTS = 3, CTSDATA = 4, READRSP = 5, EOR = 7, ATOMRSP = 8, HANDSHAKE = 9, RECEIPT = 10, READ_NACK = 11, PEER_ERROR = 12,
	EAGER = 64, MEDIUM = 66, LONG = 68, WRITE = 70, LONG_WRITE = 71, SHORT_READ = 72, LONG_READ_REQUEST = 73,
	ATOMIC = 74, FETCH = 75, COMPARE = 76, LONG_READ = 128, LONG_READ_WRITE = 130, EAGER_RECEIPT = 133, MEDIUM_RECEIPT = 135,
	LONG_RECEIPT = 137, WRITE_RECEIPT = 139, LONG_WRITE_RECEIPT = 140, ATOMIC_RECEIPT = 141, RUNT_READ = 145,
};

enum {
	HAS_ADDRESS = 1, HAS_DATA = 1 << 1, IS_MESSAGE = 1 << 2, IS_TAGGED = 1 << 3, IS_RMA = 1 << 4, IS_ATOMIC = 1 << 5, OF_READ = 1 << 7,
	AFTER_NACK = 1 << 13, HAS_CONNID = 1 << 15,
	/* Of handshakes. */
	HAS_HOST = 1, HAS_DEVICE = 1 << 1,
};

struct packet { size_t len; uint8_t bytes[PACKET_MAX]; };

/* What a packet says of its sender: flags are HAS_ADDRESS and HAS_CONNID, address_len how long the address says to be. */
struct sender { uint32_t flags, connid, address_len; uint8_t address[32]; };

struct piece { uint64_t addr, len, key; };

/* A request. Which of the fields are in the packet is a matter of its kind. */
struct request {
	int kind, is_tagged;
	uint32_t flags, number, id, credits, datatype, operation, target_count, memory_count;
	uint64_t len, offset, runt, tag, data;
	struct piece targets[PIECES_MAX], memory[PIECES_MAX];
	size_t body;
};

static inline void put(struct packet *packet, const void *bytes, size_t len)
{
	if (len > PACKET_MAX - packet->len)
		len = PACKET_MAX - packet->len;
	memcpy(packet->bytes + packet->len, bytes, len);
	packet->len += len;
}

static inline void put32(struct packet *packet, uint32_t number)
{
	put(packet, &number, sizeof number);
}

static inline void put64(struct packet *packet, uint64_t number)
{
	put(packet, &number, sizeof number);
}

static inline void put_pair(struct packet *packet, uint32_t first, uint32_t second)
{
	put32(packet, first);
	put32(packet, second);
}

static inline void put_pieces(struct packet *packet, const struct piece *pieces, uint32_t count)
{
	for (uint32_t at = 0; at < count && at < PIECES_MAX; at++)
		put(packet, &pieces[at], sizeof *pieces);
}

static inline void put_body(struct packet *packet, size_t len)
{
	if (len > PACKET_MAX - packet->len)
		len = PACKET_MAX - packet->len;
	memset(packet->bytes + packet->len, 0xdd, len);
	packet->len += len;
}

static inline void put_base(struct packet *packet, int kind, uint32_t flags, uint32_t number)
{
	const uint8_t begin[] = { (uint8_t)kind, VERSION, (uint8_t)flags, (uint8_t)(flags >> 8) };

	packet->len = 0;
	put(packet, begin, sizeof begin);
	put32(packet, number);
}

static inline void put_options(struct packet *packet, const struct sender *sender, uint32_t flags, uint64_t data)
{
	const uint8_t padding[4] = { 0 };

	if (sender->flags & HAS_ADDRESS) {
		put32(packet, sender->address_len);
		put(packet, sender->address, sizeof sender->address);
		put(packet, padding, sizeof padding);
	}
	if (flags & HAS_DATA)
		put64(packet, data);
	if (sender->flags & HAS_CONNID)
		put32(packet, sender->connid);
}

static inline int is_long(int kind)
{
	return kind == LONG || kind == LONG_RECEIPT || kind == LONG_WRITE || kind == LONG_WRITE_RECEIPT;
}

static inline int is_read_by_device(int kind)
{
	return kind == LONG_READ || kind == RUNT_READ || kind == LONG_READ_WRITE;
}

/* Sections 6.7 and 6.22. */
static inline void put_message(struct packet *packet, const struct sender *sender, const struct request *request)
{
	int kind = request->kind;
	uint32_t flags = request->flags | sender->flags | IS_MESSAGE | (request->is_tagged ? IS_TAGGED : 0);

	put_base(packet, kind + request->is_tagged, flags, request->number);
	if (kind == EAGER_RECEIPT || kind == MEDIUM_RECEIPT)
		put_pair(packet, request->id, 0);
	if (kind == MEDIUM || kind == MEDIUM_RECEIPT) {
		put64(packet, request->len);
		put64(packet, request->offset);
	} else if (is_long(kind) || is_read_by_device(kind)) {
		put64(packet, request->len);
		put_pair(packet, request->id, is_long(kind) ? request->credits : request->memory_count);
	}
	if (kind == RUNT_READ) {
		put64(packet, request->offset);
		put64(packet, request->runt);
	}
	if (request->is_tagged)
		put64(packet, request->tag);
	put_options(packet, sender, flags, request->data);
	if (is_read_by_device(kind))
		put_pieces(packet, request->memory, request->memory_count);
	put_body(packet, request->body);
}

/* Section 6.11: writes. */
static inline void put_write(struct packet *packet, const struct sender *sender, const struct request *request)
{
	int kind = request->kind;
	uint32_t flags = request->flags | sender->flags | IS_RMA;

	put_base(packet, kind, flags, request->target_count);
	if (is_long(kind) || is_read_by_device(kind)) {
		put64(packet, request->len);
		put_pair(packet, request->id, is_long(kind) ? request->credits : request->memory_count);
	} else if (kind == WRITE_RECEIPT) {
		put_pair(packet, request->id, 0);
	}
	put_pieces(packet, request->targets, request->target_count);
	put_options(packet, sender, flags, request->data);
	if (is_read_by_device(kind))
		put_pieces(packet, request->memory, request->memory_count);
	put_body(packet, request->body);
}

static inline void put_read(struct packet *packet, const struct sender *sender, const struct request *request)
{
	uint32_t flags = request->flags | sender->flags | IS_RMA;

	put_base(packet, request->kind, flags, request->target_count);
	put64(packet, request->len);
	put_pair(packet, request->id, request->credits);
	put_pieces(packet, request->targets, request->target_count);
	put_options(packet, sender, flags, request->data);
}

static inline void put_atomic(struct packet *packet, const struct sender *sender, const struct request *request)
{
	uint32_t flags = request->flags | sender->flags | IS_ATOMIC;

	put_base(packet, request->kind, flags, request->number);
	put_pair(packet, request->target_count, request->datatype);
	put_pair(packet, request->operation, request->id);
	put_pieces(packet, request->targets, request->target_count);
	put_options(packet, sender, flags, request->data);
	put_body(packet, request->body);
}

/* CTS, section 6.8. */
static inline void put_cts(struct packet *packet, uint32_t connid, uint32_t send_id, uint32_t recv_id, uint64_t len, uint32_t flags)
{
	put_base(packet, CTS, HAS_CONNID | flags, connid);
	put_pair(packet, send_id, recv_id);
	put64(packet, len);
}

/* Data that was asked for; len is what the packet says, body what it has. */
static inline void put_data(struct packet *packet, uint32_t connid, uint32_t recv_id, uint64_t len, uint64_t offset, size_t body)
{
	put_base(packet, CTSDATA, HAS_CONNID, recv_id);
	put64(packet, len);
	put64(packet, offset);
	put_pair(packet, connid, 0);
	put_body(packet, body);
}

/* READRSP with both operations, or ATOMRSP, which has only the second of the numbers, section 6.12. */
static inline void put_response(struct packet *packet, int kind, uint32_t connid, uint32_t first, uint32_t second, uint64_t len, size_t body)
{
	put_base(packet, kind, HAS_CONNID, connid);
	put_pair(packet, first, second);
	put64(packet, len);
	put_body(packet, body);
}

/* EOR, RECEIPT and READ_NACK. */
static inline void put_answer(struct packet *packet, int kind, uint32_t connid, uint32_t first, uint32_t second)
{
	put_base(packet, kind, HAS_CONNID, first);
	put_pair(packet, second, connid);
}

static inline void put_error(struct packet *packet, uint32_t connid, uint32_t id, uint32_t reference, uint32_t cause)
{
	put_base(packet, PEER_ERROR, HAS_CONNID, id);
	put_pair(packet, reference, cause);
	put32(packet, connid);
}

/* A handshake with so many sets of features by its count, and `sets` in truth, section 6.5. */
static inline void put_handshake(struct packet *packet, uint32_t connid, uint32_t count, uint64_t features, int sets, uint32_t flags)
{
	put_base(packet, HANDSHAKE, flags, count);
	for (int at = 0; at < sets; at++)
		put64(packet, at ? ~features : features);
	if (flags & HAS_CONNID)
		put64(packet, connid);
	if (flags & HAS_HOST)
		put64(packet, 0x5555);
	if (flags & HAS_DEVICE)
		put64(packet, 0xefa1);
}

/* What a packet that came back says: a number of it, 0 beyond its end. */
static inline uint32_t field(const uint8_t *bytes, size_t len, size_t at)
{
	uint32_t number = 0;

	if (at + sizeof number <= len)
		memcpy(&number, bytes + at, sizeof number);
	return number;
}

/* Where a request has the number of its sender's operation; 0 if it awaits no answer. */
static inline size_t id_at(int kind)
{
	switch (kind) {
	case 133: case 134: case 135: case 136: case WRITE_RECEIPT: return 8;
	case 68: case 69: case 128: case 129: case 137: case 138: case 145: case 146: case LONG_WRITE: case LONG_READ_WRITE: case LONG_WRITE_RECEIPT:
	case SHORT_READ: case LONG_READ_REQUEST: return 16;
	case FETCH: case COMPARE: case ATOMIC_RECEIPT: return 20;
	default: return 0;
	}
}
