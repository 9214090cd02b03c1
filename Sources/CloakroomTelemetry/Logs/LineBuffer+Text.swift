/// Text for a person at a terminal.
extension LineBuffer {
    /// A word, or in quotation marks what is none: text that is empty or holds a space or an equals sign. Control
    /// characters are escaped either way.
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

    /// Spaces until a column is full.
    /// - Parameters:
    ///   - start: The value of ``count`` at which the column begins.
    ///   - width: How wide it is, in bytes.
    mutating func pad(from start: Int, to width: Int) {
        while count - start < width { append(" ") }
    }
}
