/// The field `priority` of a request (RFC 9218 §4, §5).
enum PriorityField {
    /// Applies the members of a field value; unknown and invalid ones are ignored (RFC 9218 §4).
    static func apply(_ bytes: Span<UInt8>, from start: Int, count: Int, to request: inout RequestBlock) {
        let end = start + count
        var index = start
        while index < end {
            var memberEnd = index
            while memberEnd < end, bytes[memberEnd] != UInt8(ascii: ",") { memberEnd += 1 }
            var last = index
            // Parameters of a member have no meaning.
            while last < memberEnd, bytes[last] != UInt8(ascii: ";") { last += 1 }
            var first = index
            while first < last, isBlank(bytes[first]) { first += 1 }
            while last > first, isBlank(bytes[last - 1]) { last -= 1 }
            applyMember(bytes, first, last - first, to: &request)
            index = memberEnd + 1
        }
    }

    private static func applyMember(
        _ bytes: Span<UInt8>, _ start: Int, _ count: Int, to request: inout RequestBlock
    ) {
        if count == 3, bytes[start] == UInt8(ascii: "u"), bytes[start + 1] == UInt8(ascii: "=") {
            let digit = bytes[start + 2]
            if digit >= UInt8(ascii: "0"), digit <= UInt8(ascii: "7") { request.urgency = digit - UInt8(ascii: "0") }
        } else if bytes.matches("i", at: start, count: count) || bytes.matches("i=?1", at: start, count: count) {
            request.isIncremental = true
        } else if bytes.matches("i=?0", at: start, count: count) {
            request.isIncremental = false
        }
    }

    private static func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 }
}
