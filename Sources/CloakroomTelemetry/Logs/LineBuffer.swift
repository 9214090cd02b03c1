import CloakroomWire

/// The bytes of a line being built. Written directly, without intermediate `String` or encoder.
///
/// The storage is allocated memory instead of an array and is written through a pointer. The access log appends about
/// forty pieces per request; with array checks a line took 5,600 instructions, now 3,000 (callgrind). All writes are in
/// this file, each after ``makeRoom(_:)`` for its size.
struct LineBuffer: ~Copyable {
    private var start: UnsafeMutablePointer<UInt8>
    private var capacity: Int
    private(set) var count = 0

    init(reserving capacity: Int = 256) {
        self.capacity = max(capacity, 1)
        start = .allocate(capacity: self.capacity)
    }

    deinit {
        start.deallocate()
    }

    /// The bytes so far.
    var bytes: [UInt8] { Array(UnsafeBufferPointer(start: start, count: count)) }

    /// The bytes so far, as text.
    var text: String { String(decoding: UnsafeBufferPointer(start: start, count: count), as: UTF8.self) }

    /// Returns the bytes and resets the buffer.
    mutating func take() -> [UInt8] {
        defer { count = 0 }
        return bytes
    }

    @inline(__always)
    mutating func append(byte: UInt8) {
        makeRoom(1)
        start[count] = byte
        count += 1
    }

    mutating func append(_ other: [UInt8]) {
        other.withUnsafeBufferPointer { append($0) }
    }

    /// Appends the bytes as one block; the pointer is not retained.
    @inline(__always)
    mutating func append(_ other: UnsafeBufferPointer<UInt8>) {
        makeRoom(other.count)
        Self.copy(other, to: start + count)
        count += other.count
    }

    @inline(__always)
    private static func copy(_ source: UnsafeBufferPointer<UInt8>, to room: UnsafeMutablePointer<UInt8>) {
        if let first = source.baseAddress { room.initialize(from: first, count: source.count) }
    }

    /// Ensures capacity for this many more bytes.
    @inline(__always)
    private mutating func makeRoom(_ needed: Int) {
        if needed > capacity - count { grow(needed) }
    }

    @inline(never)
    private mutating func grow(_ needed: Int) {
        let larger = capacity + max(needed, capacity)
        let room = UnsafeMutablePointer<UInt8>.allocate(capacity: larger)
        room.initialize(from: start, count: count)
        start.deallocate()
        start = room
        capacity = larger
    }

    /// Appends text that needs no escaping. Inlined, so that a constant is copied as a few words.
    @inline(__always)
    mutating func append(_ text: StaticString) {
        // Copies the memory of the constant as one block; `StaticString` has no other access.
        text.withUTF8Buffer { append($0) }
    }

    /// Appends three constants at once: their memory is not read again between the copies.
    @inline(__always)
    mutating func append(_ before: StaticString, _ name: StaticString, _ after: StaticString) {
        let nameStart = before.utf8CodeUnitCount
        let afterStart = nameStart + name.utf8CodeUnitCount
        makeRoom(afterStart + after.utf8CodeUnitCount)
        let room = start + count
        before.withUTF8Buffer { Self.copy($0, to: room) }
        name.withUTF8Buffer { Self.copy($0, to: room + nameStart) }
        after.withUTF8Buffer { Self.copy($0, to: room + afterStart) }
        count += afterStart + after.utf8CodeUnitCount
    }

    /// Text that needs no escaping.
    mutating func append(plain text: String) {
        append(Array(text.utf8))
    }

    /// Appends the prefix of bytes that need no JSON escape.
    /// - Returns: The length of the prefix.
    mutating func append(plainPrefixOf text: Span<UInt8>) -> Int {
        makeRoom(text.count)
        let bytes = text.bytes
        let room = UnsafeMutableRawPointer(start + count)
        var length = 0
        // Eight at a time: most paths contain only such bytes.
        while length + 8 <= text.count {
            // Any eight bytes are a valid integer, and the offset is checked.
            let word = bytes.unsafeLoadUnaligned(fromByteOffset: length, as: UInt64.self)
            guard PlainBytes.areAll(word) else { break }
            room.storeBytes(of: word, toByteOffset: length, as: UInt64.self)
            length += 8
        }
        while length < text.count, PlainBytes.contain(text[length]) {
            room.storeBytes(of: text[length], toByteOffset: length, as: UInt8.self)
            length += 1
        }
        count += length
        return length
    }

    mutating func append(decimal value: UInt64) {
        // Most numbers in a line are small, and half of them have one digit.
        if value < 10 { return append(byte: UInt8(ascii: "0") &+ UInt8(truncatingIfNeeded: value)) }
        if value < 1_000 { return append(below1000: UInt32(truncatingIfNeeded: value), digits: 1) }
        var digits = 3
        var rest = value / 1_000
        while rest > 0 {
            rest /= 10
            digits += 1
        }
        append(value, digits: digits)
    }

    /// Writes the last `digits` digits of a number, starting from the last one; division by a constant compiles to a
    /// multiplication.
    private mutating func append(_ value: UInt64, digits: Int) {
        makeRoom(digits)
        let room = start + count
        var rest = value
        var index = digits
        while index > 0 {
            index -= 1
            room[index] = UInt8(truncatingIfNeeded: rest % 10) &+ UInt8(ascii: "0")
            rest /= 10
        }
        count += digits
    }

    /// Appends a number of up to three digits, with at least `digits` of them: 1 or 3.
    private mutating func append(below1000 value: UInt32, digits: Int) {
        // Four bytes are written; the last one is overwritten later.
        makeRoom(4)
        // Divisions by 100 and by 10, exact below 1,000 and below 100.
        let hundreds = (value &* 5_243) >> 19
        let rest = value &- hundreds &* 100
        let tens = (rest &* 103) >> 10
        let text = (hundreds | tens << 8 | (rest &- tens &* 10) << 16) &+ 0x30_3030
        let skipped = digits == 3 || value >= 100 ? 0 : value >= 10 ? 1 : 2
        UnsafeMutableRawPointer(start + count).storeBytes(
            of: (text >> UInt32(truncatingIfNeeded: skipped * 8)).littleEndian, as: UInt32.self)
        count += 3 - skipped
    }

    mutating func append(decimal value: Int64) {
        if value < 0 { append(byte: UInt8(ascii: "-")) }
        append(decimal: value.magnitude)
    }

    /// Appends a zero-padded number for dates, `digits` long.
    mutating func append(padded value: Int, digits: Int) {
        append(UInt64(truncatingIfNeeded: value), digits: digits)
    }

    /// Appends a duration in milliseconds with three decimals.
    mutating func append(milliseconds nanoseconds: UInt64) {
        append(decimal: nanoseconds / 1_000_000)
        append(byte: UInt8(ascii: "."))
        append(below1000: UInt32(truncatingIfNeeded: nanoseconds / 1_000 % 1_000), digits: 3)
    }

    /// Appends sixteen lower-case hexadecimal digits.
    mutating func appendHex(_ value: UInt64) {
        makeRoom(16)
        let room = UnsafeMutableRawPointer(start + count)
        // Eight digits at a time.
        room.storeBytes(of: Byte.hexDigits(UInt32(truncatingIfNeeded: value >> 32)).bigEndian, as: UInt64.self)
        room.storeBytes(
            of: Byte.hexDigits(UInt32(truncatingIfNeeded: value)).bigEndian, toByteOffset: 8, as: UInt64.self)
        count += 16
    }

    /// Appends thirty-two lower-case hexadecimal digits.
    mutating func appendHex(_ identifier: ID128) {
        appendHex(identifier.high)
        appendHex(identifier.low)
    }
}

/// Bytes that need no JSON escape: visible ASCII and spaces, except `"` and `\`.
private enum PlainBytes {
    private static let ones: UInt64 = 0x0101_0101_0101_0101
    private static let tops: UInt64 = 0x8080_8080_8080_8080

    static func contain(_ byte: UInt8) -> Bool {
        byte >= 0x20 && byte < 0x7f && byte != UInt8(ascii: "\"") && byte != UInt8(ascii: "\\")
    }

    /// Whether all eight bytes of a word need no escape.
    @inline(__always)
    static func areAll(_ word: UInt64) -> Bool {
        let controls = (word &- ones &* 0x20) & ~word
        let quotes = zeros(word ^ ones &* 0x22)
        let backslashes = zeros(word ^ ones &* 0x5c)
        let deletes = zeros(word ^ ones &* 0x7f)
        return (word | controls | quotes | backslashes | deletes) & tops == 0
    }

    /// Sets the top bit of a byte if some byte is zero; no bit if none is.
    @inline(__always)
    private static func zeros(_ word: UInt64) -> UInt64 { (word &- ones) & ~word & tops }
}

/// Text output for a terminal.
extension LineBuffer {
    /// Appends a word; text that is empty or contains a space or an equals sign is quoted. Control characters are
    /// always escaped.
    mutating func append(word text: Span<UInt8>) {
        var isWord = !text.isEmpty
        for index in text.indices where text[index] == UInt8(ascii: " ") || text[index] == UInt8(ascii: "=") {
            isWord = false
        }
        if isWord {
            append(escaped: text)
        } else {
            append(json: text)
        }
    }

    /// Pads a column with spaces.
    /// - Parameters:
    ///   - start: The value of ``count`` at the start of the column.
    ///   - width: The width of the column in bytes.
    mutating func pad(from start: Int, to width: Int) {
        while count - start < width { append(" ") }
    }
}
