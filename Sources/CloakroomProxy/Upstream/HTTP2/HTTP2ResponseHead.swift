import CloakroomCore
import CloakroomWire
import NIOCore
import NIOHPACK

/// Converts header lists of HTTP/2 responses into the form of parsed HTTP/1.1 heads, so that one header policy and one
/// path to the client serve both versions.
///
/// All rules of RFC 9113 §8.1 to §8.3 are applied; NIOHTTP2's validation is off, since its errors cannot be attributed
/// to a response. The cost is linear in the size of the list.
struct HTTP2ResponseHead {
    /// Why a header list cannot be forwarded.
    enum Problem: Error {
        case malformed
        /// More fields or bytes than ``HeadLimits`` permit.
        case tooLarge
    }

    let limits: HeadLimits
    private let names = KnownFieldTable.shared

    /// Converts the head of a final or interim response. Common statuses get their reason (RFC 9110 §15): there are
    /// clients that do not recognize a status line without one.
    /// - Parameter head: Reset by the caller.
    func convert(_ list: HPACKHeaders, into head: inout ResponseHead) throws(Problem) {
        var bytes = ByteBuffer()
        bytes.reserveCapacity(512)
        var status: Int?
        var reasonCount = 0
        for (name, value, _) in list {
            if name.utf8.first == UInt8(ascii: ":") {
                // Pseudo-fields come first, and a response has exactly one (RFC 9113 §8.3.2).
                guard status == nil, head.fields.isEmpty, name.utf8.elementsEqual(":status".utf8),
                    let code = Self.status(value)
                else { throw .malformed }
                status = code
                bytes.writeStaticString("HTTP/1.1 ")
                bytes.writeString(value)
                bytes.writeStaticString(" ")
                reasonCount = bytes.writeString(CloakroomCore.Problem.title(of: code, unknown: ""))
                bytes.writeStaticString("\r\n")
            } else {
                guard status != nil else { throw .malformed }
                let field = try append(name, value, to: &bytes)
                guard head.fields.count < limits.fields else { throw .tooLarge }
                head.fields.append(field)
            }
        }
        // HTTP/2 has no 101 (RFC 9113 §8.6).
        guard let status, status != 101 else { throw .malformed }
        bytes.writeStaticString("\r\n")
        guard bytes.readableBytes <= limits.head else { throw .tooLarge }
        head.bytes = bytes
        head.status = status
        head.reason = ByteRange(start: Self.statusStart + 4, count: reasonCount)
        head.minorVersion = 1
    }

    private static let statusStart = 9

    /// Adds a field to a converted head.
    func add(_ name: String, _ value: String, to head: inout ResponseHead) {
        head.bytes.moveWriterIndex(to: head.bytes.writerIndex - 2)
        if let field = try? append(name, value, to: &head.bytes) { head.fields.append(field) }
        head.bytes.writeStaticString("\r\n")
    }

    /// Converts a trailer section.
    /// - Returns: `nil` without fields.
    func trailers(_ list: HPACKHeaders) throws(Problem) -> TrailerSection? {
        var lines = ByteBuffer()
        for (name, value, _) in list { _ = try append(name, value, to: &lines) }
        guard lines.readableBytes > 0 else { return nil }
        do { return try TrailerSection(lines: lines) } catch { throw .tooLarge }
    }

    private func append(_ name: String, _ value: String, to bytes: inout ByteBuffer) throws(Problem) -> FieldSlice {
        let start = bytes.readableBytes
        let nameBytes = name.utf8.span
        let valueBytes = value.utf8.span
        let count = nameBytes.count + valueBytes.count + 4
        guard start + count <= limits.head - 2 else { throw .tooLarge }
        let known = names.field(nameBytes, from: 0, count: nameBytes.count)
        guard Self.isName(nameBytes), Self.isValue(valueBytes), !Self.isConnectionSpecific(known) else {
            throw .malformed
        }
        bytes.writeBytes(nameBytes.bytes)
        bytes.writeStaticString(": ")
        bytes.writeBytes(valueBytes.bytes)
        bytes.writeStaticString("\r\n")
        return FieldSlice(
            nameStart: start, nameCount: nameBytes.count, valueStart: start + nameBytes.count + 2,
            valueCount: valueBytes.count, name: known)
    }

    /// Three digits, the first 1...9 (RFC 9110 §15).
    private static func status(_ text: String) -> Int? {
        let digits = text.utf8.span
        guard digits.count == 3, digits[0] != UInt8(ascii: "0") else { return nil }
        var status = 0
        for index in digits.indices {
            let digit = Int(digits[index]) - Int(UInt8(ascii: "0"))
            guard (0...9).contains(digit) else { return nil }
            status = status * 10 + digit
        }
        return status
    }

    /// A token without upper-case letters (RFC 9113 §8.2.1).
    private static func isName(_ bytes: Span<UInt8>) -> Bool {
        for index in bytes.indices {
            let byte = bytes[index]
            guard Byte.isToken(byte), !(UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte) else { return false }
        }
        return !bytes.isEmpty
    }

    /// Without control characters, and without white space at either end (RFC 9113 §8.2.1).
    private static func isValue(_ bytes: Span<UInt8>) -> Bool {
        guard !bytes.isEmpty else { return true }
        return !Byte.isBlank(bytes[0]) && !Byte.isBlank(bytes[bytes.count - 1])
            && Byte.endOfFieldText(bytes, from: 0, to: bytes.count) == bytes.count
    }

    /// Fields that HTTP/2 prohibits (RFC 9113 §8.2.2).
    private static func isConnectionSpecific(_ name: KnownField) -> Bool {
        switch name {
        case .connection, .keepAlive, .proxyConnection, .transferEncoding, .upgrade, .te: true
        default: false
        }
    }
}
