public import CloakroomWire
import NIOCore

/// Recognizes a 401 with which an upstream demands another authentication of the user (RFC 9470 §3). New tokens of the
/// same authentication do not help, so they are not refreshed for it.
public enum StepUpChallenge {
    /// Whether `WWW-Authenticate` has the error code `insufficient_user_authentication`, in a challenge of any scheme (RFC
    /// 9110 §11.6.1).
    public static func isPresent(in head: borrowing ResponseHead) -> Bool {
        let buffer = head.bytes
        let bytes = buffer.readableBytesUInt8Span
        for field in head.fields where ASCII.equals(bytes, field.nameRange, "www-authenticate") {
            if isPresent(bytes, field.valueRange) { return true }
        }
        return false
    }

    /// Reads the parameters of all challenges in one pass. The content of other quoted strings is skipped.
    private static func isPresent(_ bytes: Span<UInt8>, _ range: ByteRange) -> Bool {
        var index = range.start
        while index < range.end {
            guard Byte.isToken(bytes[index]) else {
                guard bytes[index] == UInt8(ascii: "\"") else {
                    index += 1
                    continue
                }
                guard let end = quotedEnd(bytes, from: index, to: range.end) else { return false }
                index = end
                continue
            }
            let name = token(bytes, from: index, to: range.end)
            index = name.end
            var next = afterSpaces(bytes, from: index, to: range.end)
            guard next < range.end, bytes[next] == UInt8(ascii: "=") else { continue }
            next = afterSpaces(bytes, from: next + 1, to: range.end)
            var value = token(bytes, from: next, to: range.end)
            index = value.end
            if next < range.end, bytes[next] == UInt8(ascii: "\"") {
                guard let end = quotedEnd(bytes, from: next, to: range.end) else { return false }
                index = end
                value = ByteRange(start: next + 1, count: end - next - 2)
            }
            if ASCII.equals(bytes, name, "error"),
                ASCII.equalsCaseSensitive(bytes, value, "insufficient_user_authentication")
            {
                return true
            }
        }
        return false
    }

    private static func token(_ bytes: Span<UInt8>, from start: Int, to end: Int) -> ByteRange {
        var index = start
        while index < end, Byte.isToken(bytes[index]) { index += 1 }
        return ByteRange(start: start, count: index - start)
    }

    private static func afterSpaces(_ bytes: Span<UInt8>, from start: Int, to end: Int) -> Int {
        var index = start
        while index < end, bytes[index] == 0x20 || bytes[index] == 0x09 { index += 1 }
        return index
    }

    /// The position after a quoted string (RFC 9110 §5.6.4); `nil` if it is not closed.
    private static func quotedEnd(_ bytes: Span<UInt8>, from start: Int, to end: Int) -> Int? {
        var index = start + 1
        while index < end {
            switch bytes[index] {
            case UInt8(ascii: "\""): return index + 1
            case UInt8(ascii: "\\"): index += 2
            default: index += 1
            }
        }
        return nil
    }
}
