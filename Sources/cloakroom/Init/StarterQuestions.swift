import Foundation

/// Questions on a terminal. The prompts go to standard error, so that standard output can be a file.
struct StarterQuestions {
    /// `nil` unless standard input is a terminal.
    static var onTerminal: StarterQuestions? { isatty(STDIN_FILENO) == 1 ? StarterQuestions() : nil }

    /// Asks until there is an answer.
    /// - Returns: `nil` at the end of the input.
    func text(_ question: String, example: String) -> String? {
        while let answer = ask("\(question), such as \(example): ") {
            if !answer.isEmpty { return answer }
        }
        return nil
    }

    /// Asks once.
    /// - Returns: `nil` if the answer is empty.
    func optional(_ question: String, example: String) -> String? {
        guard let answer = ask("\(question), such as \(example) [default]: "), !answer.isEmpty else { return nil }
        return answer
    }

    /// Asks until the answer is one of the choices; an empty one is the first.
    func choice(_ question: String, among choices: [String]) -> String? {
        while let answer = ask("\(question): \(choices.joined(separator: ", ")) [\(choices[0])]: ") {
            if answer.isEmpty { return choices[0] }
            if choices.contains(answer) { return answer }
        }
        return nil
    }

    private func ask(_ prompt: String) -> String? {
        try? FileHandle.standardError.write(contentsOf: Data(prompt.utf8))
        return readLine()?.trimmingCharacters(in: .whitespaces)
    }
}
