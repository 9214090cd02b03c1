import NIOCore

/// What a server sends, read for nothing but to see whether it can be: for fuzzing.
public enum RESPFuzzing {
    /// Reads pieces as they would come from a server.
    /// - Returns: How many values there were; `nil` if it was no RESP.
    public static func read(_ pieces: some Sequence<[UInt8]>) -> Int? {
        var parser = RESPParser()
        var count = 0
        do {
            for piece in pieces {
                parser.append(ByteBuffer(bytes: piece))
                while try parser.next() != nil { count += 1 }
            }
            return count
        } catch {
            return nil
        }
    }
}
