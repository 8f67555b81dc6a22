#!/usr/bin/env python3
"""Writes eip712.txt: EIP-712 hashes and signatures of one transaction of each kind.

Independent of the Rust code: Keccak-256, the EIP-712 encoder (driven by the type strings), secp256k1 and RFC 6979
are written out here from their specifications, with the standard library only. Run it in this folder:
`python3 eip712.py > eip712.txt`. With `--eth-account` (needs `pip install eth-account`) every digest and signature
is also compared with that library, which is what wallets' test suites use; the committed file passed that.
"""

import hashlib
import hmac
import re
import sys

# Keccak-f[1600], FIPS 202 section 3, with the original 0x01 padding that Ethereum kept.
MASK = (1 << 64) - 1


def rotate(value, count):
    count %= 64
    return ((value << count) | (value >> (64 - count))) & MASK if count else value


def round_constants():
    register, constants = 1, []
    for _ in range(24):
        constant = 0
        for j in range(7):
            if register & 1:
                constant |= 1 << ((1 << j) - 1)
            register = (register << 1) ^ (0x171 if register & 0x80 else 0)
        constants.append(constant)
    return constants


CONSTANTS = round_constants()


def permute(lanes):
    for constant in CONSTANTS:
        parity = [lanes[x][0] ^ lanes[x][1] ^ lanes[x][2] ^ lanes[x][3] ^ lanes[x][4] for x in range(5)]
        mix = [parity[(x - 1) % 5] ^ rotate(parity[(x + 1) % 5], 1) for x in range(5)]
        lanes = [[lanes[x][y] ^ mix[x] for y in range(5)] for x in range(5)]
        x, y, current = 1, 0, lanes[1][0]
        for t in range(24):
            x, y = y, (2 * x + 3 * y) % 5
            current, lanes[x][y] = lanes[x][y], rotate(current, (t + 1) * (t + 2) // 2)
        lanes = [
            [lanes[x][y] ^ (~lanes[(x + 1) % 5][y] & lanes[(x + 2) % 5][y] & MASK) for y in range(5)]
            for x in range(5)
        ]
        lanes[0][0] ^= constant
    return lanes


def keccak(data):
    rate = 136
    padded = data + b"\x01" + b"\x00" * (rate - len(data) % rate - 1)
    padded = padded[:-1] + bytes([padded[-1] | 0x80])
    lanes = [[0] * 5 for _ in range(5)]
    for start in range(0, len(padded), rate):
        for i in range(rate // 8):
            lanes[i % 5][i // 5] ^= int.from_bytes(padded[start + 8 * i : start + 8 * i + 8], "little")
        lanes = permute(lanes)
    return b"".join(lanes[i % 5][i // 5].to_bytes(8, "little") for i in range(4))


assert keccak(b"").hex() == "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"

# EIP-712.
HEAD = "uint8 lane,uint64 nonce,uint128 maxFeePerGas,uint128 maxTipPerGas"
TYPES = {
    "EIP712Domain": "string name,string version,uint256 chainId,address verifyingContract,bytes32 salt",
    "Transfer": HEAD + ",address to,uint128 amount",
    "RegisterModel": HEAD + ",bytes32 model,bytes32 publicBlob,bytes32 weightsBlob,string name",
    "PostOffer": HEAD + ",OfferTerms terms",
    "WithdrawOffer": HEAD + ",bytes32 offer",
    "SubmitJob": HEAD + ",JobOrder order",
    "CancelJob": HEAD + ",bytes32 job",
    "StartLease": HEAD + ",bytes32 lease",
    "CommitReceipt": HEAD + ",bytes32 lease,Receipt receipt",
    "SubmitEvidence": HEAD + ",bytes32 lease,bytes32 evidence,uint32 size",
    "UpdateOffer": HEAD + ",bytes32 offer,OfferTerms terms",
    "CommitBid": HEAD + ",bytes32 commitment,uint128 deposit",
    "RevealBid": HEAD + ",bytes32 bid,bytes32 salt,JobOrder order",
    "RateJob": HEAD + ",bytes32 job,uint8 stars",
    "ReportLiveness": HEAD + ",uint64 epoch,address[] lost,address[] back",
    "ReportStorage": HEAD + ",StorageSubject[] held,StorageSubject[] missing",
    "DeclineLease": HEAD + ",bytes32 lease,uint8 reason",
    "CommitPart": HEAD + ",bytes32 lease,Receipt receipt",
    "RaiseJob": HEAD + ",bytes32 job,uint128 maxPrice,uint8 maxAttempts",
    "PayRent": HEAD + ",bytes32 record,uint128 amount",
    "RegisterSessionKey": HEAD + ",bytes32 key,uint8 scope,uint128 cap,uint64 expires",
    "RevokeSessionKey": HEAD + ",bytes32 key",
    "JoinValidators": HEAD + ",bytes32 key,string endpoint,bytes possession",
    "LeaveValidators": HEAD + ",bytes32 key",
    "ReportEquivocation": HEAD + ",bytes proof",
    "PostDealing": HEAD + ",uint64 round,bytes log",
    "CommitVotes": HEAD + ",bytes32[] leases,bytes32[] commitments",
    "RevealVotes": HEAD + ",bytes32[] leases,uint64[] votes,uint64[] checksums,bytes32[] salts",
    "ChallengeResult": HEAD + ",bytes32 lease",
    "ReadyForProtocol": HEAD + ",uint16 version",
    "SettleEndpoint": HEAD + ",bytes32 lease,bytes voucher,bool ends",
    "SealResult": HEAD + ",bytes32 lease,bytes32 seal",
    "OpenResult": HEAD + ",bytes32 lease,Receipt receipt,bytes32 salt",
    "ArgueResult": HEAD + ",bytes32 lease,bytes32 file,uint32 size",
    "AskStored": HEAD + ",bytes32 job,address seat",
    "RegisterSealingKey": HEAD + ",bytes key",
    "GrantKey": HEAD + ",bytes32 lease,bytes grant",
    "RevealKey": HEAD + ",bytes32 lease,bytes32 key",
    "Voucher": "bytes32 lease,uint64 answered,uint128 amount,bytes32 asks",
    "JobOrder": "bytes32 model,bytes32 input,uint32 inputLen,uint8 mode,uint128 maxPrice,uint64 deadline,"
    "uint8 maxAttempts,uint64 retention,JobNeeds needs",
    "JobNeeds": "uint8 class,uint8 gpus,uint16 gpuMilli,uint32 gpuMemoryMib,uint16 models,uint16 capabilityMin,"
    "bool tensorCores,uint8 linkMin,uint8 isolation,uint32 cpuMilli,uint32 memoryMib,uint32 diskGib,uint64 regions,"
    "uint64 referenceMs,uint16 gang,uint32 neighbourhoodUs,bool guaranteed,uint8 priority,bool preemptible,"
    "uint8 tier,uint128 valueAtRisk",
    "OfferTerms": "string hardware,uint128 priceBase,uint128 pricePerMmac,uint64 latencyBaseMs,"
    "uint64 speedMmacPerS,uint64 memoryBytes,uint16 slots,uint128 collateralPerLease,uint8 modes,"
    "Machine machine,uint128 pricePerGpuSecond,uint8 pricing",
    "Machine": "uint8 gpuCount,uint8 gpu,uint32 gpuMemoryMib,uint16 capability,bool tensorCores,uint8 link,"
    "uint8 sharing,uint32 cpuMilli,uint32 memoryMib,uint32 diskGib,uint8 region,int32 x,int32 y,uint8 tiers",
    "StorageSubject": "uint8 kind,bytes32 id",
    "Receipt": "bytes32 program,bytes32 model,bytes32 input,bytes32 output,bytes32 trace,uint8 tier",
}


def members(name):
    return [member.split(" ") for member in TYPES[name].split(",")]


def referenced(name, found):
    for kind, _ in members(name):
        kind = kind.removesuffix("[]")
        if kind in TYPES and kind not in found:
            found.add(kind)
            referenced(kind, found)
    return found


def encode_type(name):
    return "".join(f"{n}({TYPES[n]})" for n in [name, *sorted(referenced(name, set()) - {name})])


def hash_struct(name, value):
    words = [keccak(encode_type(name).encode())]
    for kind, field in members(name):
        item = value[field]
        if kind in TYPES:
            words.append(hash_struct(kind, item))
        elif kind.removesuffix("[]") in TYPES:
            words.append(keccak(b"".join(hash_struct(kind.removesuffix("[]"), it) for it in item)))
        elif kind == "string":
            words.append(keccak(item.encode()))
        elif kind == "bytes":
            words.append(keccak(item))
        elif kind == "bytes32":
            words.append(item)
        elif kind == "address":
            words.append(bytes(12) + item)
        elif kind == "address[]":
            words.append(keccak(b"".join(bytes(12) + it for it in item)))
        elif kind == "bytes32[]":
            words.append(keccak(b"".join(item)))
        elif kind == "uint64[]":
            words.append(keccak(b"".join(it.to_bytes(32, "big") for it in item)))
        elif kind == "bool":
            words.append(int(item).to_bytes(32, "big"))
        elif kind == "int32":
            words.append((item % 2**256).to_bytes(32, "big"))
        else:
            bits = int(re.fullmatch(r"uint(\d+)", kind).group(1))
            assert item < 1 << bits
            words.append(item.to_bytes(32, "big"))
    return keccak(b"".join(words))


# secp256k1 and deterministic ECDSA (RFC 6979 with SHA-256), low s.
P = 2**256 - 2**32 - 977
N = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
G = (
    0x79BE667EF9DCBBAC55A06295CE870B07029BFCDB2DCE28D959F2815B16F81798,
    0x483ADA7726A3C4655DA4FBFC0E1108A8FD17B448A68554199C47D08FFB10D4B8,
)


def add(a, b):
    if a is None or b is None:
        return b if a is None else a
    if a[0] == b[0] and (a[1] + b[1]) % P == 0:
        return None
    slope = 3 * a[0] * a[0] * pow(2 * a[1], -1, P) if a == b else (b[1] - a[1]) * pow(b[0] - a[0], -1, P)
    x = (slope * slope - a[0] - b[0]) % P
    return x, (slope * (a[0] - x) - a[1]) % P


def multiply(point, scalar):
    total = None
    while scalar:
        if scalar & 1:
            total = add(total, point)
        point, scalar = add(point, point), scalar >> 1
    return total


def address(secret):
    x, y = multiply(G, secret)
    return keccak(x.to_bytes(32, "big") + y.to_bytes(32, "big"))[12:]


def nonce_of(secret, digest):
    seed = secret.to_bytes(32, "big") + (int.from_bytes(digest, "big") % N).to_bytes(32, "big")
    key, value = b"\x00" * 32, b"\x01" * 32
    for tag in (b"\x00", b"\x01"):
        key = hmac.new(key, value + tag + seed, hashlib.sha256).digest()
        value = hmac.new(key, value, hashlib.sha256).digest()
    while True:
        value = hmac.new(key, value, hashlib.sha256).digest()
        if 0 < int.from_bytes(value, "big") < N:
            return int.from_bytes(value, "big")
        key = hmac.new(key, value + b"\x00", hashlib.sha256).digest()
        value = hmac.new(key, value, hashlib.sha256).digest()


def sign(secret, digest):
    k = nonce_of(secret, digest)
    x, y = multiply(G, k)
    r, parity = x % N, y & 1
    s = pow(k, -1, N) * (int.from_bytes(digest, "big") + r * secret) % N
    if s > N // 2:
        s, parity = N - s, parity ^ 1
    return r.to_bytes(32, "big") + s.to_bytes(32, "big") + bytes([27 + parity])


# The samples; tests/it/samples.rs builds the same ones.
def word(byte):
    return bytes([byte]) * 32


DOMAIN = {
    "name": "TensorGrid",
    "version": "1",
    "chainId": 31337,
    "verifyingContract": bytes([0xC0]) * 20,
    "salt": word(0x5A),
}
SECRET = int.from_bytes(word(0x42), "big")
AROUND = {"lane": 0, "nonce": 7, "maxFeePerGas": 4 * 10**9 + 7, "maxTipPerGas": 3 * 10**6 + 1}
TERMS = {
    "hardware": "2 CPU cores",
    "priceBase": 10**16,
    "pricePerMmac": 3 * 10**15,
    "latencyBaseMs": 250,
    "speedMmacPerS": 4000,
    "memoryBytes": 1 << 30,
    "slots": 2,
    "collateralPerLease": 10**17,
    "modes": 3,
    "machine": {
        "gpuCount": 4,
        "gpu": 9,
        "gpuMemoryMib": 81_920,
        "capability": 80,
        "tensorCores": True,
        "link": 2,
        "sharing": 7,
        "cpuMilli": 96_000,
        "memoryMib": 786_432,
        "diskGib": 4_000,
        "region": 3,
        "x": 1_500,
        "y": -2_500,
        "tiers": 5,
    },
    "pricePerGpuSecond": 4 * 10**14,
    "pricing": 1,
}
ORDER = {
    "model": word(0x11),
    "input": word(0x31),
    "inputLen": 784,
    "mode": 1,
    "maxPrice": 5 * 10**16,
    "deadline": 1_800_000_000_000,
    "maxAttempts": 3,
    "retention": 86_400_000,
    "needs": {
        "class": 1,
        "gpus": 1,
        "gpuMilli": 500,
        "gpuMemoryMib": 20_000,
        "models": 0xF00,
        "capabilityMin": 80,
        "tensorCores": True,
        "linkMin": 1,
        "isolation": 1,
        "cpuMilli": 4_000,
        "memoryMib": 16_384,
        "diskGib": 100,
        "regions": 0b1001,
        "referenceMs": 90_000,
        "gang": 2,
        "neighbourhoodUs": 2_000,
        "guaranteed": False,
        "priority": 2,
        "preemptible": True,
        "tier": 1,
        "valueAtRisk": 3 * 10**18,
    },
}


def subject(kind, byte):
    return {"kind": kind, "id": word(byte)}


def signed_voucher():
    # Little-endian, as it travels.
    voucher = {"lease": word(0x33), "answered": 7, "amount": 15 * 10**17, "asks": word(0x81)}
    digest = keccak(b"\x19\x01" + hash_struct("EIP712Domain", DOMAIN) + hash_struct("Voucher", voucher))
    signature = sign(SECRET, digest)
    numbers = voucher["answered"].to_bytes(8, "little") + voucher["amount"].to_bytes(16, "little")
    return voucher["lease"] + numbers + voucher["asks"] + signature[:64] + bytes([signature[64] - 27])


def vote(block, signature):
    # Kind, epoch, view and parent view (little-endian), block, signature.
    numbers = b"".join(it.to_bytes(8, "little") for it in [1, 300, 299])
    return bytes([0]) + numbers + word(block) + bytes([signature]) * 64


EQUIVOCATION = word(0x61) + vote(0x62, 0x63) + vote(0x64, 0x65)
SAMPLES = {
    "Transfer": {"to": bytes([0xA1]) * 20, "amount": 1_500_000_000_000_000_000},
    "RegisterModel": {
        "model": word(0x11),
        "publicBlob": word(0x12),
        "weightsBlob": word(0x13),
        "name": "lenet-28",
    },
    "PostOffer": {"terms": TERMS},
    "WithdrawOffer": {"offer": word(0x21)},
    "SubmitJob": {"order": ORDER},
    "CancelJob": {"job": word(0x32)},
    "StartLease": {"lease": word(0x33)},
    "CommitReceipt": {
        "lease": word(0x33),
        "receipt": {
            "program": word(0x10),
            "model": word(0x11),
            "input": word(0x31),
            "output": word(0x34),
            "trace": word(0x35),
            "tier": 1,
        },
    },
    "SubmitEvidence": {"lease": word(0x33), "evidence": word(0x36), "size": 123_456},
    "UpdateOffer": {"offer": word(0x21), "terms": TERMS},
    "CommitBid": {"commitment": word(0x41), "deposit": 10**16},
    "RevealBid": {"bid": word(0x42), "salt": word(0x43), "order": ORDER},
    "RateJob": {"job": word(0x32), "stars": 4},
    "ReportLiveness": {
        "epoch": 9,
        "lost": [bytes([0xA2]) * 20, bytes([0xA3]) * 20],
        "back": [bytes([0xA4]) * 20],
    },
    "ReportStorage": {
        "held": [subject(0, 0x32), subject(1, 0x11), subject(2, 0x33)],
        "missing": [subject(0, 0x38), subject(3, 0x38), subject(4, 0x39)],
    },
    "DeclineLease": {"lease": word(0x33), "reason": 1},
    "CommitPart": {
        "lease": word(0x33),
        "receipt": {
            "program": word(0x10),
            "model": word(0x11),
            "input": word(0x31),
            "output": word(0x34),
            "trace": word(0x35),
            "tier": 1,
        },
    },
    "RaiseJob": {"job": word(0x32), "maxPrice": 3 * 10**16, "maxAttempts": 5},
    "PayRent": {"record": word(0x51), "amount": 25 * 10**14},
    "RegisterSessionKey": {"key": word(0x77), "scope": 1, "cap": 5_000_000_000_000_000_007, "expires": 1_900_000_000_000},
    "RevokeSessionKey": {"key": word(0x77)},
    "JoinValidators": {"key": word(0x66), "endpoint": "seat-5.example.org:7100", "possession": bytes([0x67]) * 64},
    "LeaveValidators": {"key": word(0x66)},
    "ReportEquivocation": {"proof": EQUIVOCATION},
    "PostDealing": {"round": 3, "log": bytes([0x71]) * 40},
    "CommitVotes": {"leases": [word(0x33), word(0x34)], "commitments": [word(0x72), word(0x73)]},
    "RevealVotes": {
        "leases": [word(0x33), word(0x34), word(0x35), word(0x36)],
        "votes": [0, 1, (5 << 32) + 9, 2],
        "checksums": [77, 0, 0, 0],
        "salts": [word(0x74), word(0x75), word(0x76), word(0x77)],
    },
    "ChallengeResult": {"lease": word(0x33)},
    "ReadyForProtocol": {"version": 4},
    "SettleEndpoint": {"lease": word(0x33), "voucher": signed_voucher(), "ends": True},
    "SealResult": {"lease": word(0x33), "seal": word(0x74)},
    "OpenResult": {
        "lease": word(0x33),
        "receipt": {
            "program": word(0x10),
            "model": word(0x11),
            "input": word(0x31),
            "output": word(0x34),
            "trace": word(0x35),
            "tier": 1,
        },
        "salt": word(0x75),
    },
    "ArgueResult": {"lease": word(0x33), "file": word(0x76), "size": 70_000},
    "AskStored": {"job": word(0x32), "seat": bytes([0xA2]) * 20},
    "RegisterSealingKey": {"key": bytes([0x41]) * 1216},
    "GrantKey": {"lease": word(0x33), "grant": bytes([0x42]) * 1168},
    "RevealKey": {"lease": word(0x33), "key": word(0x43)},
}


def compare_with_eth_account(kind, message, digest, signature):
    from eth_account import Account
    from eth_account.messages import encode_typed_data

    types = {
        name: [{"name": field, "type": kind_} for kind_, field in members(name)]
        for name in ["EIP712Domain", kind, *sorted(referenced(kind, set()))]
    }
    full = {"types": types, "primaryType": kind, "domain": DOMAIN, "message": message}
    signed = Account.sign_message(encode_typed_data(full_message=full), SECRET.to_bytes(32, "big"))
    assert bytes(signed.message_hash) == digest, kind
    assert bytes(signed.signature) == signature, kind


def main():
    separator = hash_struct("EIP712Domain", DOMAIN)
    print("# Written by eip712.py; see there how.")
    print(f"address = {address(SECRET).hex()}")
    print(f"domain.type = {encode_type('EIP712Domain')}")
    print(f"domain.separator = {separator.hex()}")
    for kind, fields in SAMPLES.items():
        message = {**AROUND, **fields}
        struct = hash_struct(kind, message)
        digest = keccak(b"\x19\x01" + separator + struct)
        signature = sign(SECRET, digest)
        if "--eth-account" in sys.argv:
            compare_with_eth_account(kind, message, digest, signature)
        print(f"{kind}.type = {encode_type(kind)}")
        print(f"{kind}.type_hash = {keccak(encode_type(kind).encode()).hex()}")
        print(f"{kind}.struct_hash = {struct.hex()}")
        print(f"{kind}.digest = {digest.hex()}")
        print(f"{kind}.signature = {signature.hex()}")


main()
