import CloakroomConfig
import Foundation

/// Removes secrets from the command line, which every user of the machine can read (`ps`, `/proc/PID/cmdline`).
enum CommandLineSecrets {
    /// Overwrites the value of each `--set` whose key is a secret. Must be called first, while the process has one
    /// thread. The values are readable from the start of the process until this call; therefore `check-config` warns
    /// about secrets in `--set`.
    static func hide() {
        // `CommandLine` copies the arguments, so this must come before anything is overwritten.
        let arguments = CommandLine.arguments
        guard let block = argumentBlock() else { return }
        var start = 0
        for (index, argument) in arguments.enumerated() {
            let bytes = Array(argument.utf8)
            // Stop if the memory no longer matches the arguments, because something else has overwritten it.
            guard start + bytes.count < block.count, block[start..<start + bytes.count].elementsEqual(bytes) else {
                return
            }
            let previous = index > 0 ? arguments[index - 1] : ""
            if let secret = Self.secret(in: argument, after: previous) {
                for offset in secret { block[start + offset] = UInt8(ascii: "*") }
            }
            start += bytes.count + 1
        }
    }

    /// The byte range of the secret in an argument; `nil` if there is none.
    static func secret(in argument: String, after previous: String) -> Range<Int>? {
        var assignment = argument[...]
        if argument.hasPrefix("--set=") {
            assignment = assignment.dropFirst("--set=".count)
        } else if previous != "--set" {
            return nil
        }
        guard let equals = assignment.firstIndex(of: "="), ConfigSources.isSecret(key: String(assignment[..<equals]))
        else {
            return nil
        }
        let start = argument.utf8.distance(from: argument.startIndex, to: argument.index(after: equals))
        return start..<argument.utf8.count
    }

    /// The message about a command line without the values that it quotes: a secret may have been typed in the place of
    /// another argument. The name of the command, and names of options, remain.
    static func redacted(_ message: String, _ arguments: [String]) -> String {
        arguments.dropFirst(2).reduce(message) { message, argument in
            let value = argument.hasPrefix("-") ? argument.drop { $0 != "=" }.dropFirst() : argument[...]
            return value.isEmpty ? message : message.replacing("'\(value)'", with: "(not shown)")
        }
    }

    /// The memory that the kernel exposes as the command line: the arguments in order, each terminated by a NUL.
    ///
    /// `CommandLine` holds copies; the original memory is available only by its address from `/proc/self/stat`
    /// (proc_pid_stat(5), `arg_start` and `arg_end`). It belongs to the process and does not move.
    private static func argumentBlock() -> UnsafeMutableBufferPointer<UInt8>? {
        guard let text = try? String(contentsOfFile: "/proc/self/stat", encoding: .utf8),
            let name = text.lastIndex(of: ")")
        else { return nil }
        // The fields after the name: index 0 is field 3 of proc_pid_stat(5).
        let fields = text[text.index(after: name)...].split(separator: " ")
        guard fields.count > 46, let start = UInt(fields[45]), let end = UInt(fields[46].prefix { $0.isNumber }),
            end > start, end - start < 8 << 20
        else { return nil }
        return UnsafeMutableBufferPointer(start: UnsafeMutablePointer(bitPattern: start), count: Int(end - start))
    }
}
