import Foundation

/// Questions on a terminal. The prompts go to standard error, so that standard output can be a file.
struct StarterQuestions {
    /// `nil` unless standard input is a terminal.
    static var onTerminal: StarterQuestions? { isatty(STDIN_FILENO) == 1 ? StarterQuestions() : nil }

    /// Asks until a text is typed.
    /// - Returns: `nil` at the end of the input.
    func text(_ question: String, example: String) -> String? {
        while let line = ask("\(question), such as \(example): ") {
            if !line.isEmpty { return line }
        }
        return nil
    }

    /// Asks once.
    /// - Returns: `nil` if nothing is typed.
    func optional(_ question: String, example: String) -> String? {
        guard let line = ask("\(question), such as \(example) [default]: "), !line.isEmpty else { return nil }
        return line
    }

    /// Asks until one of the choices is typed; an empty line is the first.
    func choice(_ question: String, among choices: [String]) -> String? {
        while let line = ask("\(question): \(choices.joined(separator: ", ")) [\(choices[0])]: ") {
            if line.isEmpty { return choices[0] }
            if choices.contains(line) { return line }
        }
        return nil
    }

    private func ask(_ prompt: String) -> String? {
        try? FileHandle.standardError.write(contentsOf: Data(prompt.utf8))
        return readLine()?.trimmingCharacters(in: .whitespaces)
    }
}
