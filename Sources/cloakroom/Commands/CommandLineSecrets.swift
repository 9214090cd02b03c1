import CloakroomConfig
import Foundation

/// Takes secrets off the command line that the system shows to every user of the machine (`ps`, `/proc/PID/cmdline`).
enum CommandLineSecrets {
    /// Overwrites the value of each `--set` whose key is a secret. To be called first of all, while there is one thread.
    /// From the start of the process until then they can be seen; that is why `check-config` warns of them.
    static func hide() {
        // The copies from which options are parsed, made before anything is overwritten.
        let arguments = CommandLine.arguments
        guard let block = argumentBlock() else { return }
        var start = 0
        for (index, argument) in arguments.enumerated() {
            let bytes = Array(argument.utf8)
            // Only what is there as it was read: where anything else overwrote it, nothing is touched.
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

    /// Where in an argument a secret stands, in bytes; `nil` if there is none.
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

    /// The memory that the system shows: the arguments one after the other, each with a NUL at its end.
    ///
    /// `CommandLine` holds copies; to write where the system reads there is no way but the address that the system gives
    /// (proc_pid_stat(5), `arg_start` and `arg_end`). It belongs to the process and stays where it is until the end.
    private static func argumentBlock() -> UnsafeMutableBufferPointer<UInt8>? {
        guard let text = try? String(contentsOfFile: "/proc/self/stat", encoding: .utf8),
            let name = text.lastIndex(of: ")")
        else { return nil }
        // The fields behind the name; the first of them is number 3.
        let fields = text[text.index(after: name)...].split(separator: " ")
        guard fields.count > 46, let start = UInt(fields[45]), let end = UInt(fields[46].prefix { $0.isNumber }),
            end > start, end - start < 8 << 20
        else { return nil }
        return UnsafeMutableBufferPointer(start: UnsafeMutablePointer(bitPattern: start), count: Int(end - start))
    }
}
