/*
 * intruder FOLDER VICTIM SEED ACTS PROCESS [early] [held] [brief] [forged]
 *
 * Sends an endpoint of the fabric efa what a peer may and may not send. The victim, which has made its address known in the folder as VICTIM, gives a
 * peer up that breaks the protocol, so the intruder has many lives: endpoints of the fabric efa-direct, some at once. Each keeps to the protocol for a
 * while, with numbers that follow each other, operations of its own and those that it learns of from the victim's packets, and then breaks it. The
 * seed decides how. It knows no key of the victim's memory.
 *
 * With early its lives send what comes before something that never comes, with held announcements that bring bytes along, and nothing else. With brief each
 * asks for a handshake until it has it, and is over; with forged too, but it asks in the names of ports that there are not before.
 *
 * It ends after ACTS, or when "VICTIM.done" is there; then it says so by "VICTIM.intruder.done". Each life is made known as "VICTIM.intruder.N". It prints how
 * many packets of each kind it sent and got, "sent KIND: COUNT ..." and "got KIND: COUNT ...", "lives N", and the most memory that process PROCESS had resident,
 * "peak N KiB".
 */
#include "efa.h"
#include "efa_packets.h"

enum {
	AT_ONCE = 3, SENDS = 16, RECEIVES = 32, OWN = 16, ASKED = 16, KINDS = 256, MEMORY = 1 << 18, BODY_MAX = 8700,
	LOOK_EVERY = 64, HONEST_MAX = 120, FALSE_MAX = 60, LONG_LIFE_MAX = 2400, FORGED = 64,
};

/* Seconds that a packet may take before a life is over: the victim takes nothing of it any more. */
static const double PATIENCE_WITH_VICTIM_S = 5;

static const double ASK_AGAIN_S = 0.1;

struct slot { struct fi_context2 context; uint8_t *buffer; int busy; };

/* What this life has announced: how much, how much of it was sent, and how much the victim has asked for. */
struct announcement { int kind; uint32_t id, number, recv_id; uint64_t len, at, granted; };

/* What the victim waits for. */
struct question { int kind; uint32_t id, number; uint64_t len; };

struct life {
	struct fid_ep *ep;
	struct fid_cq *cq;
	struct slot sends[SENDS], receives[RECEIVES];
	struct sender sender;
	struct announcement own[OWN];
	struct question asked[ASKED];
	unsigned owns, asks;
	uint32_t number, next_id;
	/* How many acts are left, and how many of them keep to the protocol. */
	int left, honest, lost;
};

struct intruder {
	struct node node;
	const char *folder, *victim;
	fi_addr_t to;
	uint8_t to_address[32], *memory, *buffers;
	struct fid_mr *buffers_mr;
	struct life lives[AT_ONCE];
	struct packet packet;
	uint64_t random, acts, looks, sent[KINDS], got[KINDS];
	unsigned begun;
	long process, peak;
	int early, held, brief, forged;
};

static uint64_t draw(struct intruder *me)
{
	return mixed(me->random++ * 0x9e3779b97f4a7c15u);
}

static uint64_t below(struct intruder *me, uint64_t bound)
{
	return draw(me) % bound;
}

static int one_in(struct intruder *me, uint64_t count)
{
	return below(me, count) == 0;
}

/* Numbers at which arithmetic goes wrong. None is the key of anything. */
static uint64_t odd_number(struct intruder *me)
{
	static const uint64_t odd[] = { 0, UINT64_MAX, UINT64_MAX - 1, (uint64_t)1 << 63, INT64_MAX, UINT32_MAX, (uint64_t)1 << 32, (uint64_t)1 << 31, INT32_MAX, 0xffffe000 };

	return odd[below(me, sizeof odd / sizeof *odd)];
}

static int is_honest(const struct life *life)
{
	return life->honest > 0;
}

/* What the victim has told: what may be sent of an announcement, or a question of its own. */
static void learn(struct intruder *me, struct life *life, const uint8_t *bytes, size_t len)
{
	int kind = len ? bytes[0] : 0;

	me->got[kind]++;
	if (kind == HANDSHAKE) {
		life->sender.flags = HAS_CONNID;
	} else if (kind == CTS) {
		for (int at = 0; at < OWN; at++)
			if (life->own[at].kind && life->own[at].id == field(bytes, len, 8)) {
				life->own[at].recv_id = field(bytes, len, 12);
				life->own[at].granted += field(bytes, len, 16);
			}
	} else if (id_at(kind)) {
		uint64_t size = id_at(kind) == 16 ? field(bytes, len, 8) : 8;

		life->asked[life->asks++ % ASKED] = (struct question){ kind, field(bytes, len, id_at(kind)), field(bytes, len, 4), size };
	}
}

static void receive(struct intruder *me, struct life *life, struct slot *slot)
{
	if (fi_recv(life->ep, slot->buffer, PACKET_MAX, fi_mr_desc(me->buffers_mr), FI_ADDR_UNSPEC, &slot->context))
		life->lost = 1;
}

static void progress(struct intruder *me, struct life *life)
{
	struct fi_cq_tagged_entry entry;
	ssize_t got = fi_cq_read(life->cq, &entry, 1);
	struct slot *slot = entry.op_context;

	if (got == -FI_EAGAIN)
		return;
	if (got != 1) {
		struct fi_cq_err_entry error = { 0 };

		fi_cq_readerr(life->cq, &error, 0);
		life->lost = 1;
		return;
	}
	if (slot >= life->receives && slot < life->receives + RECEIVES) {
		learn(me, life, slot->buffer, entry.len);
		/* Now and then one is too few, so that the victim finds nothing ready. */
		receive(me, life, slot);
	} else {
		slot->busy = 0;
	}
}

static struct slot *free_slot(struct intruder *me, struct life *life)
{
	double deadline = now_s() + PATIENCE_WITH_VICTIM_S;

	for (;;) {
		for (int at = 0; at < SENDS; at++)
			if (!life->sends[at].busy)
				return &life->sends[at];
		progress(me, life);
		if (life->lost || now_s() > deadline)
			return NULL;
	}
}

static void deliver(struct intruder *me, struct life *life, const struct packet *packet)
{
	struct slot *slot = free_slot(me, life);
	ssize_t sent = -FI_EAGAIN;

	if (!slot) {
		life->lost = 1;
		return;
	}
	memcpy(slot->buffer, packet->bytes, packet->len);
	while (sent == -FI_EAGAIN && !life->lost) {
		sent = fi_send(life->ep, slot->buffer, packet->len, fi_mr_desc(me->buffers_mr), me->to, &slot->context);
		if (sent == -FI_EAGAIN)
			progress(me, life);
	}
	slot->busy = sent == 0;
	life->lost |= sent != 0;
}

/* Spoils a packet: cuts it off, turns bits, or puts another number somewhere. */
static void spoil(struct intruder *me, struct packet *packet)
{
	uint64_t number = odd_number(me);
	size_t at;

	if (packet->len < 8)
		return;
	switch (below(me, 5)) {
	case 0:
		packet->len = below(me, packet->len);
		break;
	case 1: case 2:
		for (uint64_t bits = 1 + below(me, 8); bits; bits--)
			packet->bytes[below(me, packet->len < 200 ? packet->len : 200)] ^= (uint8_t)(1 << below(me, 8));
		break;
	case 3:
		at = 4 * below(me, (packet->len < 160 ? packet->len : 160) / 4);
		memcpy(packet->bytes + at, &number, 4);
		break;
	default:
		at = 4 * below(me, (packet->len < 160 ? packet->len : 160) / 4);
		if (at + 8 <= packet->len)
			memcpy(packet->bytes + at, &number, 8);
	}
}

/* Sends the packet that was put together; once it is at that, a life spoils some and sends some twice. */
static void say(struct intruder *me, struct life *life)
{
	me->sent[me->packet.bytes[0]]++;
	if (!is_honest(life) && one_in(me, 10))
		spoil(me, &me->packet);
	deliver(me, life, &me->packet);
	if (!is_honest(life) && one_in(me, 16))
		deliver(me, life, &me->packet);
}

static struct request fresh(struct intruder *me, struct life *life, int kind)
{
	return (struct request){
		.kind = kind, .is_tagged = one_in(me, 2), .flags = one_in(me, 3) ? HAS_DATA : 0, .id = life->next_id++, .credits = 8,
		.tag = (uint64_t)1 << 63 | below(me, 5), .data = draw(me),
	};
}

static struct announcement *announce(struct life *life, const struct request *request)
{
	struct announcement *own = &life->own[life->owns++ % OWN];

	*own = (struct announcement){ request->kind, request->id, request->number, 0, request->len, request->body, 0 };
	return own;
}

static void eager(struct intruder *me, struct life *life)
{
	struct request request = fresh(me, life, one_in(me, 2) ? EAGER : EAGER_RECEIPT);

	request.number = life->number++;
	request.body = below(me, one_in(me, 3) ? BODY_MAX : 200);
	put_message(&me->packet, &life->sender, &request);
	say(me, life);
}

/* A message in several packets, in any order. What breaks the protocol leaves parts out or makes them longer, or changes the length from part to part. */
static void medium(struct intruder *me, struct life *life)
{
	struct request request = fresh(me, life, one_in(me, 2) ? MEDIUM : MEDIUM_RECEIPT);
	uint64_t len = 1 + below(me, 40000), parts = (len + BODY_MAX - 1) / BODY_MAX, first = below(me, parts);

	request.number = life->number++;
	for (uint64_t at = 0; at < parts && !life->lost; at++) {
		request.offset = (first + at) % parts * BODY_MAX;
		request.len = len;
		request.body = len - request.offset < BODY_MAX ? len - request.offset : BODY_MAX;
		if (!is_honest(life) && one_in(me, 8)) {
			switch (below(me, 5)) {
			case 0: continue;
			case 1: request.body = below(me, BODY_MAX); break;
			case 2: request.offset += below(me, 2 * len); break;
			case 3: request.len = one_in(me, 2) ? odd_number(me) : len + at; break;
			default: request.offset = odd_number(me);
			}
		}
		put_message(&me->packet, &life->sender, &request);
		say(me, life);
	}
}

static void announce_long(struct intruder *me, struct life *life)
{
	struct request request = fresh(me, life, one_in(me, 2) ? LONG : LONG_RECEIPT);

	request.number = life->number++;
	request.body = one_in(me, 2) ? BODY_MAX : below(me, BODY_MAX);
	request.len = request.body + 1 + below(me, 60000);
	if (!is_honest(life) && one_in(me, 4))
		request.len = one_in(me, 2) ? request.body - below(me, request.body + 1) : odd_number(me);
	if (!is_honest(life) && one_in(me, 4))
		request.flags |= AFTER_NACK;
	announce(life, &request);
	put_message(&me->packet, &life->sender, &request);
	say(me, life);
}

/* Names memory of this process in pieces that are together as long as the message. */
static void name_memory(struct intruder *me, struct request *request, uint64_t len)
{
	uint64_t at = 0;

	request->memory_count = 1 + (uint32_t)below(me, 3);
	for (uint32_t piece = 0; piece < request->memory_count; piece++) {
		uint64_t rest = len - at, part = piece + 1 == request->memory_count ? rest : below(me, rest + 1);

		request->memory[piece] = (struct piece){ (uintptr_t)me->memory + at, part, fi_mr_key(me->node.mr) };
		at += part;
	}
}

/* Names it wrongly. */
static void misname_memory(struct intruder *me, struct request *request)
{
	struct piece *piece = &request->memory[below(me, request->memory_count)];

	switch (below(me, 6)) {
	case 0: piece->key ^= 0x5500; break;
	case 1: piece->key = odd_number(me); break;
	case 2: piece->len = odd_number(me); break;
	case 3: piece->addr = odd_number(me); break;
	case 4: request->memory_count = (uint32_t)odd_number(me); break;
	default: request->memory_count = (uint32_t)below(me, PIECES_MAX + 1);
	}
}

static void announce_to_be_read(struct intruder *me, struct life *life)
{
	struct request request = fresh(me, life, LONG_READ);

	request.number = life->number++;
	request.len = 1 + below(me, MEMORY);
	name_memory(me, &request, request.len);
	if (!is_honest(life) && one_in(me, 2))
		misname_memory(me, &request);
	if (!is_honest(life) && one_in(me, 4))
		request.body = below(me, BODY_MAX);
	announce(life, &request);
	put_message(&me->packet, &life->sender, &request);
	say(me, life);
}

/* A message whose first bytes are sent and the rest read. */
static void runt(struct intruder *me, struct life *life)
{
	struct request request = fresh(me, life, RUNT_READ);
	uint64_t len = 2 + below(me, MEMORY - 2), sent = 1 + below(me, len < 30000 ? len : 30000);

	request.number = life->number++;
	request.len = len;
	request.runt = sent;
	name_memory(me, &request, len);
	if (!is_honest(life) && one_in(me, 4))
		request.runt = one_in(me, 2) ? odd_number(me) : len + below(me, 2);
	if (!is_honest(life) && one_in(me, 4))
		misname_memory(me, &request);
	announce(life, &request);
	for (uint64_t at = 0; at < sent && !life->lost; at += request.body) {
		request.offset = at;
		request.body = sent - at < BODY_MAX - 100 ? sent - at : BODY_MAX - 100;
		if (!is_honest(life) && one_in(me, 8))
			request.offset = one_in(me, 2) ? odd_number(me) : below(me, 2 * len);
		put_message(&me->packet, &life->sender, &request);
		say(me, life);
		if (!is_honest(life) && one_in(me, 6))
			return;
	}
}

/* Sends what the victim has asked for, or what it has not. */
static void feed(struct intruder *me, struct life *life)
{
	for (int at = 0; at < OWN && !life->lost; at++) {
		struct announcement *own = &life->own[at];
		uint64_t left = own->len - own->at, offset = own->at, len;

		if (!own->kind || own->at >= own->len || own->granted == 0)
			continue;
		len = left < BODY_MAX ? left : 1 + below(me, BODY_MAX);
		own->at += len;
		if (!is_honest(life) && one_in(me, 8)) {
			switch (below(me, 4)) {
			case 0: offset = odd_number(me); break;
			case 1: offset += below(me, own->len + 1); break;
			case 2: offset -= below(me, offset + 1); break;
			default: own->at -= len;
			}
		}
		put_data(&me->packet, life->sender.connid, own->recv_id, len, offset, len);
		say(me, life);
	}
}

/* Memory of the victim that there is not. */
static void aim(struct intruder *me, struct life *life, struct request *request, uint64_t len)
{
	request->target_count = 1 + (uint32_t)below(me, 4);
	for (uint32_t at = 0; at < request->target_count; at++)
		request->targets[at] = (struct piece){ (uint64_t)1 << 46 | below(me, (uint64_t)1 << 40), at ? 0 : len,
						       (one_in(me, 8) ? (uint64_t)1 << 40 : 0) | (uint64_t)1 << 31 | below(me, (uint64_t)1 << 31) };
	if (!is_honest(life) && one_in(me, 6))
		request->targets[0].len = odd_number(me);
	if (!is_honest(life) && one_in(me, 12))
		request->target_count = (uint32_t)odd_number(me);
}

static void write_there(struct intruder *me, struct life *life)
{
	static const int kinds[] = { WRITE, WRITE_RECEIPT, LONG_WRITE, LONG_WRITE_RECEIPT, LONG_READ_WRITE };
	struct request request = fresh(me, life, kinds[below(me, 5)]);

	request.body = below(me, 4000);
	request.len = is_honest(life) || one_in(me, 2) ? request.body + 1 + below(me, 10000) : odd_number(me);
	if (request.kind == LONG_READ_WRITE) {
		request.body = 0;
		name_memory(me, &request, request.len % MEMORY);
	}
	aim(me, life, &request, request.kind == WRITE || request.kind == WRITE_RECEIPT ? request.body : request.len);
	announce(life, &request);
	put_write(&me->packet, &life->sender, &request);
	say(me, life);
}

/* A write of nothing asks for a handshake, or for a receipt when all before is done. */
static void write_nothing(struct intruder *me, struct life *life)
{
	struct request request = fresh(me, life, one_in(me, 2) ? WRITE : WRITE_RECEIPT);

	/* Completion data comes with a write of some memory only. */
	if (is_honest(life))
		request.flags = 0;
	put_write(&me->packet, &life->sender, &request);
	say(me, life);
}

static void read_there(struct intruder *me, struct life *life)
{
	struct request request = fresh(me, life, one_in(me, 2) ? SHORT_READ : LONG_READ_REQUEST);

	request.flags = 0;
	request.len = is_honest(life) || one_in(me, 2) ? below(me, 100000) : odd_number(me);
	request.credits = (uint32_t)request.len;
	aim(me, life, &request, request.len);
	put_read(&me->packet, &life->sender, &request);
	say(me, life);
}

static void update_there(struct intruder *me, struct life *life)
{
	static const int kinds[] = { ATOMIC, FETCH, COMPARE, ATOMIC_RECEIPT };
	struct request request = fresh(me, life, kinds[below(me, 4)]);

	request.number = life->number++;
	request.datatype = FI_UINT64;
	request.operation = FI_SUM;
	request.body = request.kind == COMPARE ? 16 : 8;
	if (request.kind == COMPARE)
		request.operation = FI_CSWAP;
	if (!is_honest(life)) {
		request.datatype = (uint32_t)(one_in(me, 3) ? odd_number(me) : below(me, 20));
		request.operation = (uint32_t)(one_in(me, 3) ? odd_number(me) : below(me, 24));
		request.body = one_in(me, 2) ? below(me, 64) : below(me, BODY_MAX);
	}
	aim(me, life, &request, 8);
	put_atomic(&me->packet, &life->sender, &request);
	say(me, life);
}

/* An id of this life, one that the victim told, or one of nothing. */
static uint32_t some_id(struct intruder *me, struct life *life)
{
	struct life *other = &me->lives[below(me, AT_ONCE)];

	switch (below(me, 6)) {
	case 0: return life->own[below(me, OWN)].recv_id;
	case 1: return life->asked[below(me, ASKED)].id;
	case 2: return other->own[below(me, OWN)].recv_id;
	case 3: return other->asked[below(me, ASKED)].id;
	case 4: return (uint32_t)odd_number(me);
	default: return (uint32_t)below(me, 64);
	}
}

/* Answers what the victim waits for: as it should be, as long as this life is honest. */
static void answer(struct intruder *me, struct life *life)
{
	struct question *asked = &life->asked[below(me, ASKED)];
	uint32_t connid = life->sender.connid, id = life->next_id++;
	int wrong = !is_honest(life) && one_in(me, 2), kind = asked->kind;
	uint64_t len = asked->len, body = len < BODY_MAX ? len : BODY_MAX;

	if (!kind)
		return;
	if (wrong) {
		len = one_in(me, 2) ? odd_number(me) : below(me, 2 * len + 1);
		body = below(me, BODY_MAX);
	}
	switch (kind) {
	case SHORT_READ: case LONG_READ_REQUEST:
		put_response(&me->packet, READRSP, connid, asked->id, id, wrong ? len : body, body);
		break;
	case FETCH: case COMPARE:
		put_response(&me->packet, ATOMRSP, connid, 0, asked->id, len, body);
		break;
	case ATOMIC_RECEIPT: case WRITE_RECEIPT: case 133: case 134: case 135: case 136:
		put_answer(&me->packet, RECEIPT, connid, asked->id, asked->number);
		break;
	case 128: case 129: case LONG_READ_WRITE: case 145: case 146:
		put_answer(&me->packet, one_in(me, 2) ? EOR : READ_NACK, connid, asked->id, id);
		break;
	default:
		put_cts(&me->packet, connid, asked->id, id, len, 0);
	}
	if (!wrong)
		asked->kind = 0;
	say(me, life);
}

/* Answers to nothing, or for the second time. */
static void answer_nothing(struct intruder *me, struct life *life)
{
	static const int kinds[] = { EOR, RECEIPT, READ_NACK };
	uint32_t connid = life->sender.connid, id = some_id(me, life), other = some_id(me, life);
	uint64_t body = below(me, 2000), len = one_in(me, 2) ? body : odd_number(me);

	switch (below(me, 7)) {
	case 0: put_cts(&me->packet, connid, id, other, one_in(me, 2) ? below(me, 100000) : odd_number(me), one_in(me, 2) ? OF_READ : 0); break;
	case 1: put_data(&me->packet, connid, id, len, one_in(me, 2) ? below(me, 100000) : odd_number(me), body); break;
	case 2: put_response(&me->packet, READRSP, connid, id, other, len, body); break;
	case 3: put_response(&me->packet, ATOMRSP, connid, 0, id, len, body); break;
	case 4: put_error(&me->packet, connid, id, (uint32_t)below(me, 4), (uint32_t)draw(me)); break;
	default: put_answer(&me->packet, kinds[below(me, 3)], connid, id, other);
	}
	say(me, life);
}

static void say_handshake(struct intruder *me, struct life *life)
{
	/* All that an endpoint of ours can. */
	uint64_t features = 0x35b;
	uint32_t connid = life->sender.connid, flags = HAS_CONNID | (one_in(me, 2) ? HAS_DEVICE : 0);

	if (is_honest(life))
		put_handshake(&me->packet, connid, 4, one_in(me, 3) ? features & ~(uint64_t)0x21 : features, 1, flags);
	else
		put_handshake(&me->packet, connid, one_in(me, 2) ? (uint32_t)odd_number(me) : (uint32_t)below(me, 20), draw(me), (int)below(me, 16),
			      (uint32_t)(one_in(me, 2) ? flags | HAS_HOST : draw(me) & 0xffff));
	say(me, life);
}

/* A message with a number that is over, or is far ahead of the next one. */
static void misnumber(struct intruder *me, struct life *life)
{
	static const int kinds[] = { EAGER, MEDIUM, LONG, LONG_READ, RUNT_READ };
	struct request request = fresh(me, life, kinds[below(me, 5)]);
	uint32_t back = 1 + (uint32_t)below(me, 8);

	switch (below(me, 4)) {
	case 0: request.number = life->number + (1u << 30) - 4 + (uint32_t)below(me, 8); break;
	case 1: request.number = life->number + 1 + (uint32_t)below(me, 100); break;
	case 2: life->number += 1 + (uint32_t)below(me, 3); request.number = life->number; break;
	default: request.number = life->number - back;
	}
	request.flags |= one_in(me, 3) ? AFTER_NACK : 0;
	request.body = below(me, 2000);
	request.len = one_in(me, 2) ? request.body + 5000 : odd_number(me);
	request.runt = request.body;
	name_memory(me, &request, request.len % MEMORY);
	put_message(&me->packet, &life->sender, &request);
	say(me, life);
}

/* A message in another name: with an address of another length or endpoint, or another connid. */
static void misname(struct intruder *me, struct life *life)
{
	struct request request = fresh(me, life, EAGER);
	struct sender sender = life->sender;

	sender.flags |= HAS_ADDRESS;
	sender.address_len = 36;
	switch (below(me, 7)) {
	case 0: sender.address_len = (uint32_t)below(me, 80); break;
	case 1: sender.address_len = (uint32_t)odd_number(me); break;
	case 2: memcpy(sender.address, me->to_address, sizeof sender.address); break;
	case 3: sender.address[below(me, sizeof sender.address)] ^= 1; break;
	case 4: memcpy(sender.address, me->lives[below(me, AT_ONCE)].sender.address, sizeof sender.address); break;
	case 5: sender.flags = one_in(me, 2) ? HAS_CONNID : 0; sender.connid ^= 1; break;
	default:
		/* Another endpoint with the number of this queue pair: from now on that is its name. */
		life->sender.connid ^= (uint32_t)below(me, 1 << 20);
		memcpy(life->sender.address + 20, &life->sender.connid, sizeof life->sender.connid);
		sender.connid = life->sender.connid;
		memcpy(sender.address, life->sender.address, sizeof sender.address);
		life->number = 0;
	}
	request.number = life->number++;
	request.body = below(me, 200);
	put_message(&me->packet, &sender, &request);
	say(me, life);
}

/* Bytes without any sense, now and then of another version or of a kind that there is not. */
static void babble(struct intruder *me, struct life *life)
{
	struct packet *packet = &me->packet;

	put_base(packet, (int)below(me, KINDS), (uint32_t)draw(me) & 0xffff, (uint32_t)draw(me));
	while (packet->len < PACKET_MAX && !one_in(me, 12))
		put64(packet, one_in(me, 4) ? odd_number(me) : draw(me));
	if (one_in(me, 8))
		packet->bytes[1] = (uint8_t)draw(me);
	deliver(me, life, packet);
}

/* What comes before a message that never comes. */
static void send_early(struct intruder *me, struct life *life)
{
	struct request request = fresh(me, life, EAGER);

	request.number = 1 + life->number++;
	request.body = BODY_MAX;
	put_message(&me->packet, &life->sender, &request);
	say(me, life);
}

/* The announcement of a message that no receive takes, with many of its bytes. */
static void send_held(struct intruder *me, struct life *life)
{
	struct request request = fresh(me, life, LONG);

	request.number = life->number++;
	request.body = BODY_MAX;
	request.len = 1 << 20;
	request.is_tagged = 0;
	put_message(&me->packet, &life->sender, &request);
	say(me, life);
}

/* Asks in the names of ports that there are not. */
static void forge(struct intruder *me, struct life *life)
{
	struct request request = { .kind = WRITE };
	struct sender sender = life->sender;

	for (int at = 0; at < FORGED && !life->lost; at++) {
		uint64_t port = draw(me);

		memcpy(sender.address + 4, &port, sizeof port);
		put_write(&me->packet, &sender, &request);
		say(me, life);
	}
}

/* Asks again as long as there is no answer: a victim that knows many intruders drops what others send. */
static void ask(struct intruder *me, struct life *life)
{
	struct request request = { .kind = WRITE };
	double deadline = now_s() + PATIENCE_S, again = 0;

	if (me->forged)
		forge(me, life);
	while (life->sender.flags != HAS_CONNID && !life->lost) {
		if (now_s() > again) {
			put_write(&me->packet, &life->sender, &request);
			say(me, life);
			again = now_s() + ASK_AGAIN_S;
		}
		progress(me, life);
		if (now_s() > deadline)
			expect("a handshake", -FI_ETIMEDOUT);
	}
	life->left = 0;
}

static void act(struct intruder *me, struct life *life)
{
	static void (*const HONEST[])(struct intruder *, struct life *) = {
		eager, medium, announce_long, announce_to_be_read, runt, feed, feed, answer, answer, say_handshake, write_nothing, write_there, read_there, update_there,
	};
	static void (*const OTHER[])(struct intruder *, struct life *) = { answer_nothing, answer_nothing, misnumber, misname, babble };
	int others = sizeof OTHER / sizeof *OTHER, all = sizeof HONEST / sizeof *HONEST;
	uint64_t which = below(me, (uint64_t)(is_honest(life) ? all : all + others));

	if (me->early)
		send_early(me, life);
	else if (me->held)
		send_held(me, life);
	else if (me->brief)
		ask(me, life);
	else if (which < (uint64_t)all)
		HONEST[which](me, life);
	else
		OTHER[which - (uint64_t)all](me, life);
	life->honest--;
	life->left--;
	me->acts++;
}

/* Makes an address known as node_publish does. */
static void publish(struct intruder *me, const uint8_t *name, const char *end)
{
	uint8_t address[ADDRESS_MAX] = { 0 };
	char file[PATH_MAX], part[PATH_MAX + 8];
	FILE *out;

	snprintf(file, sizeof file, "%s/%s.intruder.%s", me->folder, me->victim, end);
	snprintf(part, sizeof part, "%s.part", file);
	memcpy(address, name, 32);
	out = fopen(part, "wb");
	if (!out || fwrite(address, sizeof address, 1, out) != 1 || fclose(out) || rename(part, file))
		expect("publish", -errno);
}

static void begin(struct intruder *me, struct life *life)
{
	struct fi_cq_attr attr = { .format = FI_CQ_FORMAT_TAGGED, .size = SENDS + RECEIVES };
	size_t len = sizeof life->sender.address;
	char name[32];

	expect("fi_cq_open", fi_cq_open(me->node.domain, &attr, &life->cq, NULL));
	expect("fi_endpoint", fi_endpoint(me->node.domain, me->node.info, &life->ep, NULL));
	expect("fi_ep_bind", fi_ep_bind(life->ep, &me->node.av->fid, 0));
	expect("fi_ep_bind", fi_ep_bind(life->ep, &life->cq->fid, FI_TRANSMIT | FI_RECV));
	expect("fi_enable", fi_enable(life->ep));
	expect("fi_getname", fi_getname(&life->ep->fid, life->sender.address, &len));
	memcpy(&life->sender.connid, life->sender.address + 20, sizeof life->sender.connid);
	life->sender.flags = HAS_ADDRESS;
	life->sender.address_len = 36;
	life->honest = (int)below(me, HONEST_MAX);
	/* The victim takes no more of a peer that it has given up. */
	life->left = me->early || me->held ? (int)below(me, LONG_LIFE_MAX) : life->honest + (int)below(me, FALSE_MAX);
	for (int at = 0; at < RECEIVES; at++)
		receive(me, life, &life->receives[at]);
	snprintf(name, sizeof name, "%u", me->begun++);
	publish(me, life->sender.address, name);
}

static void end(struct life *life)
{
	expect("fi_close endpoint", fi_close(&life->ep->fid));
	expect("fi_close queue", fi_close(&life->cq->fid));
	life->ep = NULL;
	for (int at = 0; at < SENDS; at++)
		life->sends[at].busy = 0;
	memset(life->own, 0, sizeof life->own);
	memset(life->asked, 0, sizeof life->asked);
	life->owns = life->asks = 0;
	life->number = 0;
	life->lost = 0;
}

static void open_all(struct intruder *me)
{
	size_t slots = (size_t)AT_ONCE * (SENDS + RECEIVES);
	struct fi_av_attr attr = { .type = FI_AV_UNSPEC };
	struct node *node = &me->node;

	efa_select(node, efa_hints("efa-direct", FI_MSG | FI_SOURCE));
	node->info->tx_attr->size = SENDS;
	node->info->rx_attr->size = RECEIVES;
	expect("fi_fabric", fi_fabric(node->info->fabric_attr, &node->fabric, NULL));
	expect("fi_domain", fi_domain(node->fabric, node->info, &node->domain, NULL));
	expect("fi_av_open", fi_av_open(node->domain, &attr, &node->av, NULL));
	me->memory = calloc(1, MEMORY);
	me->buffers = calloc(slots, PACKET_MAX);
	expect("fi_mr_reg", fi_mr_reg(node->domain, me->memory, MEMORY, FI_REMOTE_READ, 0, 0, 0, &node->mr, NULL));
	expect("fi_mr_reg", fi_mr_reg(node->domain, me->buffers, slots * PACKET_MAX, FI_SEND | FI_RECV, 0, 0, 0, &me->buffers_mr, NULL));
	for (size_t at = 0; at < slots; at++) {
		struct life *life = &me->lives[at / (SENDS + RECEIVES)];
		size_t slot = at % (SENDS + RECEIVES);

		*(slot < SENDS ? &life->sends[slot].buffer : &life->receives[slot - SENDS].buffer) = me->buffers + at * PACKET_MAX;
	}
}

static void close_all(struct intruder *me)
{
	struct node *node = &me->node;

	for (int at = 0; at < AT_ONCE; at++)
		if (me->lives[at].ep)
			end(&me->lives[at]);
	expect("fi_close region", fi_close(&node->mr->fid));
	expect("fi_close region", fi_close(&me->buffers_mr->fid));
	expect("fi_close vector", fi_close(&node->av->fid));
	expect("fi_close domain", fi_close(&node->domain->fid));
	expect("fi_close fabric", fi_close(&node->fabric->fid));
	fi_freeinfo(node->info);
	free(me->memory);
	free(me->buffers);
}

static void meet(struct intruder *me)
{
	char file[PATH_MAX];
	FILE *in;

	me->to = node_meet(&me->node, me->folder, me->victim);
	snprintf(file, sizeof file, "%s/%s", me->folder, me->victim);
	in = fopen(file, "rb");
	if (!in || fread(me->to_address, sizeof me->to_address, 1, in) != 1 || fclose(in))
		expect("the victim's address", -errno);
}

/* The most memory that the victim had resident, as far as that is told. */
static void look(struct intruder *me)
{
	char line[256];
	long peak;
	FILE *in;

	snprintf(line, sizeof line, "/proc/%ld/status", me->process);
	in = fopen(line, "r");
	while (in && fgets(line, sizeof line, in))
		if (sscanf(line, "VmHWM: %ld", &peak) == 1 && peak > me->peak)
			me->peak = peak;
	if (in)
		fclose(in);
}

static int is_over(struct intruder *me, uint64_t acts)
{
	char name[64];

	if (me->looks++ % LOOK_EVERY)
		return 0;
	look(me);
	snprintf(name, sizeof name, "%s.done", me->victim);
	return me->acts >= acts || node_has(me->folder, name);
}

static void tell_counts(const char *word, const uint64_t counts[KINDS])
{
	char line[4096];
	size_t at = 0;

	for (int kind = 0; kind < KINDS && at < sizeof line - 64; kind++)
		if (counts[kind])
			at += (size_t)snprintf(line + at, sizeof line - at, " %d: %llu", kind, (unsigned long long)counts[kind]);
	line[at] = 0;
	printf("%s%s\n", word, line);
}

static void tell(const struct intruder *me)
{
	tell_counts("sent", me->sent);
	tell_counts("got", me->got);
	printf("acts %llu\nlives %u\npeak %ld KiB\n", (unsigned long long)me->acts, me->begun, me->peak);
}

int main(int argc, char **argv)
{
	static struct intruder me;
	uint64_t acts;

	if (argc < 6)
		return 2;
	for (int at = 6; at < argc; at++) {
		me.early |= !strcmp(argv[at], "early");
		me.held |= !strcmp(argv[at], "held");
		me.brief |= !strcmp(argv[at], "brief");
		me.forged |= !strcmp(argv[at], "forged");
		me.brief |= me.forged;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	me.folder = argv[1];
	me.victim = argv[2];
	me.random = strtoull(argv[3], NULL, 10) << 32;
	acts = strtoull(argv[4], NULL, 10);
	me.process = strtol(argv[5], NULL, 10);
	open_all(&me);
	meet(&me);
	while (!is_over(&me, acts)) {
		struct life *life = &me.lives[below(&me, AT_ONCE)];

		if (!life->ep)
			begin(&me, life);
		progress(&me, life);
		if (life->lost || life->left <= 0)
			end(life);
		else
			act(&me, life);
	}
	tell(&me);
	close_all(&me);
	publish(&me, me.to_address, "done");
	return 0;
}
