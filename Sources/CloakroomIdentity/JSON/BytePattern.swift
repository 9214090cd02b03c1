/// Searches for one byte string in others (Knuth, Morris and Pratt), in time linear in both lengths.
///
/// An upstream chooses both the tokens and the documents that are searched for them. A search whose cost is the product
/// of the two lengths would let an upstream keep a thread busy.
struct BytePattern {
    private let pattern: [UInt8]
    /// For each length of a match, the length of the next shorter match that ends at the same position.
    private let fallback: [Int]

    /// - Parameter pattern: Not empty.
    init(_ pattern: [UInt8]) {
        self.pattern = pattern
        var fallback = [0]
        fallback.reserveCapacity(pattern.count)
        var length = 0
        for index in pattern.indices.dropFirst() {
            while length > 0, pattern[index] != pattern[length] { length = fallback[length - 1] }
            if pattern[index] == pattern[length] { length += 1 }
            fallback.append(length)
        }
        self.fallback = fallback
    }

    func occurs(in text: some Sequence<UInt8>) -> Bool {
        var length = 0
        for byte in text {
            while length > 0, byte != pattern[length] { length = fallback[length - 1] }
            if byte == pattern[length] { length += 1 }
            if length == pattern.count { return true }
        }
        return false
    }
}
