import CloakroomHTTP2
import CloakroomWire
import NIOCore
import NIOHPACK

/// Converts request heads into HTTP/2 header lists.
///
/// The source is the HTTP/1.1 head of ``UpstreamRequestEncoder``: what is forwarded and what the gateway adds is decided
/// in one place for both versions.
struct HTTP2RequestHead {
    /// Why a request cannot be sent over the connection.
    enum Problem: Error {
        /// Larger than the peer permits, or than one HEADERS frame: NIOHTTP2 writes no CONTINUATION frames. A larger
        /// frame would fail only after the compression state was changed, which corrupts all later requests.
        case tooLarge
        case malformed
    }

    /// `:scheme`.
    let scheme: String
    /// Name of the field with the API token, in lower case; empty without one.
    let apiTokenName: String
    /// Name of the field with the session's token, in lower case, unless it is `authorization`.
    var bearerName = ""
    /// `SETTINGS_MAX_FRAME_SIZE` of the peer, in bytes.
    var maxFrame = 16_384
    /// `SETTINGS_MAX_HEADER_LIST_SIZE` of the peer, in bytes.
    var maxList = Int.max
    /// Whether fields are entered into the compression table. NIOHPACK makes it as large as the peer permits, without a
    /// limit, and searches it from one end to the other.
    var isIndexing = true

    private static let limits = HeadLimits(head: 65_535, fields: 8_192, target: 65_535)

    /// Converts a head.
    /// - Parameter bytes: The complete head; consumed.
    func convert(_ bytes: inout ByteBuffer) throws(Problem) -> HPACKHeaders {
        var head = RequestHead()
        do {
            var parser = HeadParser(limits: Self.limits)
            guard try parser.parse(&bytes, into: &head), bytes.readableBytes == 0 else { throw Problem.malformed }
        } catch WireError.headTooLarge, WireError.targetTooLong, WireError.tooManyFields {
            throw .tooLarge
        } catch {
            throw .malformed
        }
        var list = SizedList()
        let common = isIndexing ? HPACKIndexing.indexable : .nonIndexable
        list.add(":method", Self.text(head.bytes, head.method), common)
        list.add(":scheme", scheme, common)
        for field in head.fields where field.name == .host {
            list.add(":authority", Self.text(head.bytes, field.valueRange), common)
        }
        list.add(":path", Self.text(head.bytes, head.target), .nonIndexable)
        for field in head.fields where isForwarded(field.name) {
            let name = field.name == .other ? Self.text(head.bytes, field.nameRange).lowercased() : field.name.text
            let value = Self.text(head.bytes, field.valueRange)
            list.add(name, value, indexing(of: field, name: name, value))
        }
        guard list.frameBound <= maxFrame, list.size <= maxList else { throw .tooLarge }
        return list.headers
    }

    func convert(trailers lines: ByteBuffer) throws(Problem) -> HPACKHeaders {
        guard let section = try? TrailerSection(lines: lines) else { throw .malformed }
        var list = SizedList()
        for field in section.fields {
            list.add(
                Self.text(section.bytes, field.nameRange).lowercased(), Self.text(section.bytes, field.valueRange),
                .nonIndexable)
        }
        guard list.frameBound <= maxFrame, list.size <= maxList else { throw .tooLarge }
        return list.headers
    }

    /// A header list is made of text, so bytes that are not UTF-8 are replaced (U+FFFD).
    private static func text(_ bytes: ByteBuffer, _ range: ByteRange) -> String {
        bytes.getString(at: bytes.readerIndex + range.start, length: range.count) ?? ""
    }

    /// `Host` becomes `:authority`; the fields of an HTTP/1.1 connection have no equivalent (RFC 9113 §8.2.2). `TE` was
    /// written by the gateway and contains only `trailers`.
    private func isForwarded(_ name: KnownField) -> Bool {
        switch name {
        case .host, .connection, .keepAlive, .proxyConnection, .transferEncoding, .upgrade, .http2Settings: false
        default: true
        }
    }

    // MARK: - Indexing

    /// The compression state is shared by the requests of all users. Only fields whose values are common to many
    /// requests and no secrets are entered into it; secrets are marked, so that no further hop does it either
    /// (RFC 7541 §7.1.3).
    private func indexing(of field: FieldSlice, name: String, _ value: String) -> HPACKIndexing {
        switch field.name {
        case .authorization, .proxyAuthorization, .cookie: return .neverIndexed
        case .userAgent, .te, .via, .contentType, .cacheControl, .xForwardedProto, .xForwardedHost:
            return isIndexable(value) ? .indexable : .nonIndexable
        case .other where name == apiTokenName || name == bearerName: return .neverIndexed
        case .other: return Self.common.contains(name) && isIndexable(value) ? .indexable : .nonIndexable
        default: return .nonIndexable
        }
    }

    /// Whether a value of such a field is entered. NIOHPACK compares it with the values in the table by their normalization
    /// forms: that takes more than linear time for a text of combining marks, and another spelling of a text would be sent.
    private func isIndexable(_ value: String) -> Bool {
        isIndexing && value.utf8.count <= Self.maxIndexed && value.utf8.allSatisfy { $0 < 0x80 }
    }

    /// Maximum length of a value that is indexed, in bytes: the table has 4,096.
    private static let maxIndexed = 256
    private static let common: Set<String> = [
        "accept", "accept-charset", "accept-encoding", "accept-language", "dnt", "grpc-accept-encoding",
        "grpc-encoding", "priority", "sec-ch-ua", "sec-ch-ua-mobile", "sec-ch-ua-platform", "sec-fetch-dest",
        "sec-fetch-mode", "sec-fetch-user", "upgrade-insecure-requests", "x-requested-with",
    ]
}

/// A header list and bounds of its size.
private struct SizedList {
    private(set) var headers = HPACKHeaders()
    /// The size that `SETTINGS_MAX_HEADER_LIST_SIZE` limits (RFC 9113 §6.5.2).
    private(set) var size = 0
    /// The maximum size of the encoded list. Strings are Huffman-encoded even if that is longer.
    private(set) var frameBound = 12

    init() { headers.reserveCapacity(32) }

    mutating func add(_ name: String, _ value: String, _ indexing: HPACKIndexing) {
        let nameBytes = name.utf8.span
        let valueBytes = value.utf8.span
        let huffman = Huffman.shared
        size += nameBytes.count + valueBytes.count + 32
        frameBound +=
            9 + huffman.encodedCount(nameBytes, from: 0, count: nameBytes.count)
            + huffman.encodedCount(valueBytes, from: 0, count: valueBytes.count)
        headers.add(name: name, value: value, indexing: indexing)
    }
}
