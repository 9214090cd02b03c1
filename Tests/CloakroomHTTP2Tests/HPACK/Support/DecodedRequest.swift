import CloakroomWire
import NIOCore

@testable import CloakroomHTTP2

/// A decoded request as text.
struct DecodedRequest: Equatable {
    var text: String
    var method: String
    var target: String
    /// The fields of the index, by their ranges.
    var fields: [String]
    var block: RequestBlock

    init(_ head: RequestHead, _ block: RequestBlock) {
        let bytes = Array(head.bytes.readableBytesView)
        func string(_ range: ByteRange) -> String { String(decoding: bytes[range.start..<range.end], as: UTF8.self) }
        text = String(decoding: bytes, as: UTF8.self)
        method = string(head.method)
        target = string(head.target)
        fields = head.fields.map { "\(string($0.nameRange))=\(string($0.valueRange))" }
        self.block = block
    }
}

/// A decoder that test expectations can use, which do not support types that cannot be copied.
final class TestDecoder {
    static let limits = HeadLimits(head: 1_024, fields: 10, target: 100)

    private var decoder: HPACKDecoder

    init(tableLimit: Int = 4_096) {
        decoder = HPACKDecoder(tableLimit: tableLimit)
    }

    func decode(
        _ block: [UInt8], limits: HeadLimits = limits, into head: inout RequestHead
    ) throws(HPACKError) -> RequestBlockResult {
        try decoder.decodeRequest(block.span, limits: limits, into: &head)
    }

    /// Decodes a block that must be a request.
    func request(_ block: [UInt8], limits: HeadLimits = limits) throws -> DecodedRequest {
        var head = RequestHead()
        let result = try decode(block, limits: limits, into: &head)
        guard case .request(let request) = result else { throw UnexpectedResult(result: result) }
        return DecodedRequest(head, request)
    }

    /// Decodes a block and drops the head.
    func result(_ block: [UInt8], limits: HeadLimits = limits) throws -> RequestBlockResult {
        var head = RequestHead()
        let result = try decode(block, limits: limits, into: &head)
        if case .request = result { return result }
        guard head.bytes.readableBytes == 0, head.fields.isEmpty else { throw UnexpectedResult(result: result) }
        return result
    }

    func trailers(_ block: [UInt8]) throws(HPACKError) -> TrailerBlockResult {
        try decoder.decodeTrailers(block.span)
    }

    func compact() {
        decoder.compact()
    }

    var allocatedBytes: Int { decoder.allocatedBytes }
    /// The sum of the sizes of the table's entries.
    var tableSize: Int { decoder.table.size }

    /// The lines of the dynamic table, the newest first.
    var tableLines: [String] { decoder.tableLines.map { String(decoding: $0, as: UTF8.self) } }
}

struct UnexpectedResult: Error {
    var result: RequestBlockResult
}
