import CloakroomCore
import CloakroomWire
import NIOCore
import NIOHPACK

/// Writes response heads as HTTP/2 fields (RFC 9113 §8.3.2): names in lower case, without connection-specific fields.
struct HTTP2ResponseFields {
    private(set) var headers: HPACKHeaders

    /// Fields without a status: a trailer section.
    init() {
        headers = HPACKHeaders([])
    }

    init(status: Int) {
        self.init()
        headers.reserveCapacity(16)
        headers.add(name: ":status", value: Self.text(of: status))
    }

    /// Adds the fields of an upstream's response that the header policy kept.
    /// - Parameter except: Name of a field that is omitted.
    mutating func add(_ head: borrowing ResponseHead, except: String? = nil) {
        let bytes = head.bytes.readableBytesUInt8Span
        for field in head.fields where !field.isStripped {
            let name = Self.name(of: field, bytes)
            guard name != except else { continue }
            headers.add(name: name, value: Self.text(bytes, field.valueRange), indexing: Self.indexing(of: name))
        }
    }

    mutating func add(_ additions: ResponseAdditions) {
        if let date = additions.date { headers.add(name: "date", value: String(decoding: date, as: UTF8.self)) }
        if additions.isPrivate { headers.add(name: "cache-control", value: "private") }
        if additions.variesByCookie { headers.add(name: "vary", value: "Cookie") }
        if let lines = additions.crossOriginLines { add(lines: lines.span) }
    }

    /// Adds the fields of a local response.
    mutating func add(_ response: LocalResponse) {
        headers.add(name: "date", value: String(decoding: response.date, as: UTF8.self))
        add(lines: response.fieldLines.span)
        if response.status != 204 { headers.add(name: "content-length", value: "\(response.body.count)") }
    }

    /// Adds complete field lines in HTTP/1.1 syntax, known to be well formed.
    mutating func add(lines bytes: Span<UInt8>) {
        var index = 0
        while index < bytes.count {
            let start = index
            while index < bytes.count, bytes[index] != UInt8(ascii: ":") { index += 1 }
            let name = ByteRange(start: start, count: index - start)
            index += 1
            while index < bytes.count, bytes[index] == 0x20 || bytes[index] == 0x09 { index += 1 }
            let valueStart = index
            while index < bytes.count, bytes[index] != 0x0d { index += 1 }
            let text = Self.text(bytes, ByteRange(start: valueStart, count: index - valueStart))
            let lower = Self.lowerCaseText(bytes, name)
            headers.add(name: lower, value: text, indexing: Self.indexing(of: lower))
            index += 2
        }
    }

    /// Values that change with each response are not indexed, as they would evict reusable entries from the client's
    /// dynamic table. `Set-Cookie` must never be indexed (RFC 7541 §7.1.3).
    private static func indexing(of name: String) -> HPACKIndexing {
        switch name {
        case "set-cookie": .neverIndexed
        case "content-length", "etag", "last-modified", "location", "content-range", "age": .nonIndexable
        default: .indexable
        }
    }

    // MARK: - Strings

    /// Common names are string literals; creating a string of more than 15 bytes would allocate.
    private static func name(of field: FieldSlice, _ bytes: Span<UInt8>) -> String {
        switch field.name {
        case .contentType: "content-type"
        case .contentLength: "content-length"
        case .date: "date"
        case .cacheControl: "cache-control"
        case .vary: "vary"
        case .setCookie: "set-cookie"
        default: lowerCaseText(bytes, field.nameRange)
        }
    }

    private static func lowerCaseText(_ bytes: Span<UInt8>, _ range: ByteRange) -> String {
        String(unsafeUninitializedCapacity: range.count) { room in
            for offset in 0..<range.count {
                let byte = bytes[range.start + offset]
                room[offset] = byte >= UInt8(ascii: "A") && byte <= UInt8(ascii: "Z") ? byte | 0x20 : byte
            }
            return range.count
        }
    }

    /// Values are mostly ASCII. Invalid UTF-8 becomes U+FFFD, because the HPACK API uses strings.
    private static func text(_ bytes: Span<UInt8>, _ range: ByteRange) -> String {
        String(unsafeUninitializedCapacity: range.count) { room in
            for offset in 0..<range.count { room[offset] = bytes[range.start + offset] }
            return range.count
        }
    }

    private static func text(of status: Int) -> String {
        switch status {
        case 200: "200"
        case 204: "204"
        case 206: "206"
        case 304: "304"
        case 400: "400"
        case 401: "401"
        case 404: "404"
        case 500: "500"
        default: "\(status)"
        }
    }
}
