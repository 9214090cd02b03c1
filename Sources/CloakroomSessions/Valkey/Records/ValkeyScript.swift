import Crypto

/// A script that the server runs in one piece, named by SHA-1 of its text as `EVALSHA` wants it.
///
/// All keys of a script are in one slot of a cluster. Each is sent by its name, and by its text only if the server does
/// not know the name: then it was not run, so running it is no repetition.
struct ValkeyScript: Sendable {
    let text: String
    let name: String

    init(_ text: String) {
        self.text = text
        let digest = Insecure.SHA1.hash(data: Array(text.utf8))
        name = digest.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }

    /// The command that runs it.
    func evalsha(_ keys: [String], _ arguments: [ValkeyCommand.Part]) -> ValkeyCommand {
        command("EVALSHA", name, keys, arguments)
    }

    /// The command that runs it where its name is not known, and makes it known.
    func eval(_ keys: [String], _ arguments: [ValkeyCommand.Part]) -> ValkeyCommand {
        command("EVAL", text, keys, arguments)
    }

    private func command(
        _ command: String, _ script: String, _ keys: [String], _ arguments: [ValkeyCommand.Part]
    ) -> ValkeyCommand {
        var parts: [ValkeyCommand.Part] = [.text(script), .integer(Int64(keys.count))]
        parts += keys.map { .text($0) }
        parts += arguments
        return ValkeyCommand(command, parts)
    }
}
