import NIOCore

/// Entry point for fuzzing the parser of server data.
public enum RESPFuzzing {
    /// Parses pieces as they would arrive from a server.
    /// - Returns: The number of values; `nil` for invalid RESP.
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
