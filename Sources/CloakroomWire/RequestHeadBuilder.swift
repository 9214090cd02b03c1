import NIOCore

/// Writes a request head from names and values of another protocol than HTTP/1.1. Validation is as strict as in
/// parsing: ``HeadParser`` produces the same head from the written bytes.
public struct RequestHeadBuilder: Sendable {
    private let limits: HeadLimits
    private let names = KnownFieldTable.shared

    /// Creates a builder. The limits are those of a parsed head.
    public init(limits: HeadLimits) {
        self.limits = limits
    }

    /// Writes the request line. Called first, with an empty head.
    /// - Throws: ``WireError`` if the method is not a token, or the target is empty, too long or not visible ASCII.
    public func begin(method: String, target: String, into head: inout RequestHead) throws(WireError) {
        guard Self.isToken(method), method.utf8.count <= 32 else { throw .requestLine }
        guard target.utf8.count <= limits.target else { throw .targetTooLong }
        guard !target.isEmpty, Self.isTarget(target) else { throw .requestLine }
        head.method = ByteRange(start: 0, count: method.utf8.count)
        head.target = ByteRange(start: method.utf8.count + 1, count: target.utf8.count)
        head.minorVersion = 1
        head.bytes.writeString(method)
        head.bytes.writeStaticString(" ")
        head.bytes.writeString(target)
        head.bytes.writeStaticString(" HTTP/1.1\r\n")
    }

    /// Writes a field line. A field that is rejected leaves the head unchanged.
    /// - Returns: The kind of the field.
    /// - Throws: ``WireError`` if the name is not a token in lower case, if the value contains controls or begins or
    ///   ends with white space (RFC 9113 §8.2.1), or if a limit is exceeded.
    public func append(name: String, value: String, into head: inout RequestHead) throws(WireError) -> KnownField {
        let start = head.bytes.readableBytes
        let nameCount = name.utf8.count
        let valueCount = value.utf8.count
        // Checked first, so that the cost is bounded.
        guard start + nameCount + valueCount + 6 <= limits.head else { throw .headTooLarge }
        guard head.fields.count < limits.fields else { throw .tooManyFields }
        head.bytes.writeString(name)
        head.bytes.writeStaticString(": ")
        head.bytes.writeString(value)
        head.bytes.writeStaticString("\r\n")
        let valueStart = start + nameCount + 2
        let known: KnownField
        do throws(WireError) {
            known = try check(head.bytes, nameStart: start, nameCount: nameCount, valueStart: valueStart, valueCount)
        } catch {
            // A rejected field is removed from the head, whatever the caller does with it.
            head.bytes.moveWriterIndex(to: head.bytes.readerIndex + start)
            throw error
        }
        head.fields.append(
            FieldSlice(
                nameStart: start, nameCount: nameCount, valueStart: valueStart, valueCount: valueCount, name: known))
        return known
    }

    private func check(
        _ buffer: ByteBuffer, nameStart: Int, nameCount: Int, valueStart: Int, _ valueCount: Int
    ) throws(WireError) -> KnownField {
        let bytes = buffer.readableBytesUInt8Span
        guard Self.isLowerCaseToken(bytes, from: nameStart, count: nameCount) else { throw .fieldName }
        guard Self.isFieldValue(bytes, from: valueStart, count: valueCount) else { throw .fieldValue }
        return names.field(bytes, from: nameStart, count: nameCount)
    }

    /// Removes the field that was written last.
    public func removeLast(from head: inout RequestHead) {
        guard let field = head.fields.popLast() else { return }
        head.bytes.moveWriterIndex(to: head.bytes.readerIndex + Int(field.nameStart))
    }

    /// Writes the end of the head. Called last.
    public func finish(_ head: inout RequestHead) {
        head.bytes.writeStaticString("\r\n")
    }

    // MARK: - Characters

    private static func isToken(_ text: String) -> Bool {
        !text.isEmpty && text.utf8.allSatisfy { Byte.isToken($0) }
    }

    private static func isLowerCaseToken(_ bytes: Span<UInt8>, from start: Int, count: Int) -> Bool {
        for index in start..<(start + count) {
            let byte = bytes[index]
            guard Byte.isToken(byte), byte < UInt8(ascii: "A") || byte > UInt8(ascii: "Z") else { return false }
        }
        return count > 0
    }

    private static func isTarget(_ text: String) -> Bool {
        text.utf8.allSatisfy { $0 > Byte.space && $0 != Byte.delete }
    }

    private static func isFieldValue(_ bytes: Span<UInt8>, from start: Int, count: Int) -> Bool {
        let end = start + count
        guard count > 0 else { return true }
        return !Byte.isBlank(bytes[start]) && !Byte.isBlank(bytes[end - 1])
            && Byte.endOfFieldText(bytes, from: start, to: end) == end
    }
}
