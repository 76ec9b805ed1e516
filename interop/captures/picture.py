"""Draws the first rows of a screen, once as on a dark terminal and once as on a light one, into one PNG.

Only for UPDATE_CAPTURES=1: needs Pillow, and the fonts of DejaVu.
"""

from PIL import Image, ImageDraw, ImageFont

FONTS = "/usr/share/fonts/truetype/dejavu/DejaVuSansMono"
SIZE, WIDTH, HEIGHT, MARGIN = 13, 8, 16, 6
# The sixteen colours as xterm has them; those of a light terminal are darker where they are names on white.
NAMES = ["black", "red", "green", "brown", "blue", "magenta", "cyan", "white"]
DARK = dict(zip(NAMES, ["#000000", "#cd3131", "#0dbc79", "#e5e510", "#2472c8", "#bc3fbc", "#11a8cd", "#e5e5e5"]))
LIGHT = dict(zip(NAMES, ["#000000", "#cd3131", "#107c10", "#949800", "#0451a5", "#bc05bc", "#0598bc", "#555555"]))
GROUNDS = [("#e5e5e5", "#1e1e1e", DARK), ("#1e1e1e", "#ffffff", LIGHT)]


def draw(screen, rows, path):
    plain, bold = (ImageFont.truetype(f"{FONTS}{weight}.ttf", SIZE) for weight in ("", "-Bold"))
    width, height = screen.columns * WIDTH + 2 * MARGIN, rows * HEIGHT + 2 * MARGIN
    image = Image.new("RGB", (width, 2 * height))
    pen = ImageDraw.Draw(image)
    for place, (before, behind, colours) in enumerate(GROUNDS):
        top = place * height
        pen.rectangle((0, top, width, top + height), fill=behind)
        for row in range(rows):
            for column in range(screen.columns):
                cell = screen.buffer[row][column]
                colour = colours.get(cell.fg.removeprefix("bright"), before)
                at = (MARGIN + column * WIDTH, top + MARGIN + row * HEIGHT)
                if cell.data.strip():
                    pen.text(at, cell.data, font=bold if cell.bold else plain, fill=colour)
    image.quantize(32).save(path, optimize=True)
