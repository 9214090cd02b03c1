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
