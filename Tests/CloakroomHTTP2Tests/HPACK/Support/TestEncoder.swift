import CloakroomWire
import NIOCore
import NIOHPACK

@testable import CloakroomHTTP2

/// An encoder, the client that decodes its blocks with another implementation, and the line cache of its loop.
final class TestEncoder {
    private var encoder = CloakroomHTTP2.HPACKEncoder()
    private var client: NIOHPACK.HPACKDecoder
    private let cache: ResponseLineCache
    /// The block that was encoded last.
    private(set) var block: [UInt8] = []

    init(cache: ResponseLineCache = ResponseLineCache()) {
        client = NIOHPACK.HPACKDecoder(
            allocator: ByteBufferAllocator(), maxDynamicTableSize: 4_096, maxHeaderListSize: 1 << 20)
        self.cache = cache
    }

    /// Encodes a response and returns it as the client decodes it.
    func send(_ head: ResponseHead, except: StaticString? = nil) throws -> [String] {
        var out = ByteBuffer(string: "before")
        encoder.begin(status: head.status, into: &out)
        encoder.add(head, except: except, cache: cache, into: &out)
        return try receive(out)
    }

    /// Encodes a response in HTTP/1.1 syntax.
    func send(_ text: String) throws -> [String] {
        try send(Self.head(text))
    }

    func send(status: Int?, lines: String) throws -> [String] {
        var out = ByteBuffer(string: "before")
        encoder.begin(status: status, into: &out)
        encoder.add(lines: Array(lines.utf8).span, cache: cache, into: &out)
        return try receive(out)
    }

    func send(name: StaticString, value: String) throws -> [String] {
        var out = ByteBuffer(string: "before")
        encoder.begin(status: nil, into: &out)
        encoder.add(name: name, value: Array(value.utf8).span, into: &out)
        return try receive(out)
    }

    private func receive(_ out: ByteBuffer) throws -> [String] {
        var sent = out
        guard sent.readString(length: 6) == "before" else { throw UnexpectedBlock() }
        block = Array(sent.readableBytesView)
        return try client.decodeHeaders(from: &sent).map { "\($0.name)=\($0.value)" }
    }

    /// Applies the client's SETTINGS_HEADER_TABLE_SIZE.
    func setTableLimit(_ limit: Int) {
        encoder.setPeerTableLimit(limit)
    }

    func compact() {
        encoder.compact()
    }

    var tableCount: Int { encoder.table.count }
    var tableSize: Int { encoder.table.size }
    var tableLimit: Int { encoder.table.limit }
    var allocatedBytes: Int { encoder.allocatedBytes }

    /// The lines of the dynamic table, the newest first.
    var tableLines: [String] { encoder.tableLines.map { String(decoding: $0, as: UTF8.self) } }

    static func head(_ text: String) throws -> ResponseHead {
        var parser = HeadParser(limits: HeadLimits(head: 65_535, fields: 10_000, target: 100))
        var head = ResponseHead()
        var bytes = ByteBuffer(string: "HTTP/1.1 " + text + "\r\n")
        guard try parser.parse(&bytes, into: &head) else { throw UnexpectedBlock() }
        return head
    }
}

struct UnexpectedBlock: Error {}
